"""Credentials for receivers, from Secrets of the tenant, on a real cluster with a real operator and a real receiver."""

from pathlib import Path
from typing import Any

import yaml
from support.cluster_actions import Organization, delivered, endpoint, manifest, message_ids, receiving
from support.polling import eventually

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/credentials/bearer-token.yaml"
HEADER = {"name": "Authorization", "prefix": "Bearer ", "secretKeyRef": {"name": "api", "key": "token"}}


def credential(token: str, *, hosts: str = "127.0.0.1", label: str = "true") -> dict[str, Any]:
    """Return a Secret that its tenant offers for deliveries."""
    metadata = {
        "name": "api",
        "labels": {"hookwright.dev/delivery-credential": label},
        "annotations": {"hookwright.dev/hosts": hosts},
    }
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"token": token}}


def test_a_receiver_gets_the_token_and_a_new_one_at_once(org: Organization) -> None:
    """While the Secret is missing, is not offered or is for another host, deliveries wait; no attempt is made."""
    with receiving() as receiver:
        org.apply(manifest("Project", "billing"), endpoint("orders", receiver.url, secretHeaders=[HEADER]))
        org.wait_for("hwep", "orders", "False CredentialsNotFound")
        org.send(delivered("early"))
        org.apply(credential("t0ken", label="false"))
        org.apply(credential("t0ken", hosts="api.example.com"))
        org.wait_for("hwep", "orders", "False CredentialsRefused")
        (event,) = eventually(lambda: org.events("CredentialsRefused"), "an Event")
        assert "t0ken" not in str(event)
        assert receiver.received == []
        org.apply(credential("t0ken"))
        org.wait_for("hwep", "orders", "True Delivering")
        (request,) = eventually(lambda: receiver.received, "the early event arrives")
        assert (request.headers["Authorization"], request.attempt) == ("Bearer t0ken", 1)
        org.apply(credential("second"))

        def newest() -> str:
            org.send(delivered("next"))
            return str(receiver.received[-1].headers["Authorization"])

        eventually(lambda: newest() == "Bearer second", "the new token is used")
        org.apply(credential("second", label="false"))
        org.wait_for("hwep", "orders", "False CredentialsNotFound")
        count = len(message_ids(receiver.received))
        org.send(delivered("late"))
        org.apply(credential("third"))
        org.wait_for("hwep", "orders", "True Delivering")
        eventually(lambda: receiver.received[count:], "the late event arrives")
        assert receiver.received[-1].headers["Authorization"] == "Bearer third"
        org.delete("secret", "api")
        org.wait_for("hwep", "orders", "False CredentialsNotFound")
    documents = [*yaml.safe_load_all(EXAMPLE.read_text())]
    for document in documents:
        del document["metadata"]["namespace"]
    org.apply(*documents)
    org.wait_for("hwep", "ledger", "True Delivering")
