"""Receivers of another sender, which verify its signature with its secret, on a real cluster with a real operator."""

from pathlib import Path

import yaml
from support.cluster_actions import Organization, delivered, endpoint, manifest, receiving
from support.other_senders import verify_github, verify_hex, verify_stripe
from support.polling import eventually

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/credentials/another-senders-signature.yaml"
OLD = "whsec_of the old sender, no base64"


def test_receivers_of_another_sender_need_no_change(org: Organization) -> None:
    """Each of them verifies with the secret that it knows."""
    verifications = {"github": verify_github, "stripe": verify_stripe, "hex": verify_hex}
    documents = [*yaml.safe_load_all(EXAMPLE.read_text())]
    documents[0]["stringData"] = {"secret": f"{OLD}\n"}
    for document in documents:
        del document["metadata"]["namespace"]
    with receiving() as receiver:
        signing = {"secretRef": {"name": "old-sender", "encoding": "raw"}}
        extras = {form: {"form": form, "header": "X-Old-Signature"} for form in verifications}
        endpoints = [
            endpoint(form, receiver.url + form, signing=signing, extraSignature=extra) for form, extra in extras.items()
        ]
        org.apply(manifest("Project", "billing"), documents[0], *endpoints)
        for form in verifications:
            org.wait_for("hwep", form, "True Delivering")
        assert org.send(delivered("m-1"))["deliveries"] == 3
        eventually(lambda: len(receiver.received) == 3, "all three are delivered")
        for request in receiver.received:
            verifications[request.target.strip("/")](request.body, OLD, request.headers["X-Old-Signature"])
    org.apply(*documents)
    org.wait_for("hwep", "builds", "True Delivering")
