"""Credentials for receivers, from Secrets of the tenant, on a real cluster with a real operator and a real receiver."""

from pathlib import Path
from typing import Any

import yaml
from support.cluster_actions import Organization, delivered, endpoint, manifest, message_ids, receiving
from support.oauth2_server import CLIENT_ID, CLIENT_SECRET, TokenServer
from support.polling import eventually
from support.tls_receiver import TlsReceiver

from hookwright_dev.cluster.certificates import KeyPair

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/credentials"
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


def test_a_receiver_gets_an_access_token_and_a_fault_of_the_token_server_is_not_charged(org: Organization) -> None:
    """Both hosts must be allowed. Deliveries that waited have their first attempt when the token server works."""
    server = TokenServer(lifetime=5)
    with receiving(server.guard) as receiver, receiving(lambda _: 500) as tokens:
        url = tokens.url.replace("127.0.0.1", "localhost")
        reference = {"name": "api", "key": "token"}
        oauth2 = {"clientId": CLIENT_ID, "clientSecretRef": reference, "tokenUrl": url, "scopes": ["events"]}
        org.apply(manifest("Project", "billing"), endpoint("orders", receiver.url, oauth2=oauth2))
        org.apply(credential(CLIENT_SECRET))
        org.wait_for("hwep", "orders", "False CredentialsRefused")
        assert "'localhost'" in str(org.status("hwep", "orders"))
        org.send(delivered("early"))
        assert tokens.received == []
        org.apply(credential(CLIENT_SECRET, hosts="127.0.0.1, localhost"))
        org.wait_for("hwep", "orders", "False AttemptFailed", type_="Reachable")
        assert "token server localhost: HTTP 500 Internal Server Error" in str(org.status("hwep", "orders"))
        assert receiver.received == []
        tokens.answer = server.answer
        eventually(lambda: receiver.received, "the early event arrives")
        assert [request.attempt for request in receiver.received] == [1]
        assert org.status("hwep", "orders")["deliveries"]["failed"] == 0
        server.ends.clear()
        org.send(delivered("next"))
        eventually(lambda: message_ids(receiver.received)[1:] == ["next", "next"], "the request is repeated at once")
        log = org.operator.log.read_text()
    assert not any(secret in log for secret in (CLIENT_SECRET, *server.ends))


def test_the_examples_become_ready(org: Organization) -> None:
    """Each file has a Secret and an endpoint that uses it; the Secret of one is made by cert-manager."""
    org.apply(manifest("Project", "billing"))
    for example in sorted({*EXAMPLES.glob("*.yaml")} - {EXAMPLES / "client-certificate.yaml"}):
        documents = [*yaml.safe_load_all(example.read_text())]
        for document in documents:
            del document["metadata"]["namespace"]
        org.apply(*documents)
        org.wait_for("hwep", documents[-1]["metadata"]["name"], "True Delivering")


def certificates(name: str, text: str) -> dict[str, Any]:
    """Return a ConfigMap in the form of trust-manager."""
    metadata = {"name": name, "labels": {"hookwright.dev/delivery-credential": "true"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ca.crt": text}}


def client_pair(pair: KeyPair, key: KeyPair | None = None, *, hosts: str = "127.0.0.1") -> dict[str, Any]:
    """Return a Secret in the form of cert-manager."""
    texts = {"tls.crt": pair.public.decode(), "tls.key": (key or pair).key.decode()}
    secret = credential("", hosts=hosts)
    return {
        **secret,
        "type": "kubernetes.io/tls",
        "metadata": {**secret["metadata"], "name": "pair"},
        "stringData": texts,
    }


def test_a_private_receiver_gets_the_client_certificate_and_a_renewed_one_at_once(
    org: Organization, tls_receiver: TlsReceiver
) -> None:
    """While the authority or the pair is missing, unfit or for another host, deliveries wait; no attempt is made."""
    trusted = tls_receiver.trusted
    first, second = trusted.issue("first"), trusted.issue("second")
    tls = {"caCertificateRefs": [{"name": "partner-ca"}], "clientCertificateRef": {"name": "pair"}}
    org.apply(manifest("Project", "billing"), endpoint("orders", tls_receiver.url, tls=tls))
    org.wait_for("hwep", "orders", "False CredentialsNotFound")
    org.send(delivered("early"))
    org.apply(certificates("partner-ca", "no PEM"), client_pair(first))
    org.wait_for("hwep", "orders", "False CredentialsInvalid")
    # In this order, because the endpoint would be ready for a moment.
    org.apply(client_pair(first, hosts="api.example.com"), certificates("partner-ca", trusted.pem.decode()))
    org.wait_for("hwep", "orders", "False CredentialsRefused")
    org.apply(client_pair(first, second))
    org.wait_for("hwep", "orders", "False CredentialsInvalid")
    eventually(lambda: "is not the key of" in str(org.status("hwep", "orders")), "the message names the fault")
    shown = str(org.objects("hwep,events"))
    assert not any(line in shown for line in first.key.decode().splitlines()[1:-1])
    assert tls_receiver.clients == []
    org.apply(client_pair(first))
    org.wait_for("hwep", "orders", "True Delivering")
    eventually(lambda: tls_receiver.clients == ["first"], "the early event arrives")
    org.apply(client_pair(second))

    def newest() -> str:
        org.send(delivered("next"))
        return tls_receiver.clients[-1]

    eventually(lambda: newest() == "second", "the new certificate is used")
    org.delete("configmap", "partner-ca")
    org.wait_for("hwep", "orders", "False CredentialsNotFound")
    assert "create the ConfigMap" in str(org.status("hwep", "orders"))
    log = org.operator.log.read_text().splitlines()
    assert not any("attempt failed" in line and org.namespace in line for line in log)
    config_map, made_by_cert_manager, partner = yaml.safe_load_all((EXAMPLES / "client-certificate.yaml").read_text())
    for document in (config_map, partner):
        del document["metadata"]["namespace"]
    config_map["data"] = {"ca.crt": trusted.pem.decode()}
    template = {"name": "partner-client", **made_by_cert_manager["spec"]["secretTemplate"]}
    org.apply(config_map, partner, {**client_pair(first), "metadata": template})
    org.wait_for("hwep", "partner", "True Delivering")
