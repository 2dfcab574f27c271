"""An operator with a real proxy, and receivers with each kind of credential, on a real cluster."""

import pytest
from cluster.conftest import ACCELERATED
from cluster.test_credentials import certificates, client_pair, credential
from support.cluster_actions import Organization, delivered, endpoint, manifest, message_ids, receiving
from support.connect_proxy import PROXY_ADDRESS, ConnectProxy
from support.oauth2_server import CLIENT_ID, CLIENT_SECRET, TokenServer
from support.polling import eventually
from support.stack import OPERATOR, Stack
from support.tls_receiver import TlsReceiver

from hookwright_dev.cluster.kubectl import Cluster


@pytest.mark.slow
def test_requests_leave_only_by_the_proxy_and_its_stop_is_no_attempt(
    stack: Stack, shared_cluster: Cluster, namespace: str, connect_proxy: ConnectProxy, tls_receiver: TlsReceiver
) -> None:
    """Deliveries, tests and requests for tokens; while the proxy is stopped, deliveries wait."""
    operator = stack.operator(OPERATOR | ACCELERATED | {"HOOKWRIGHT_PROXY_URL": connect_proxy.url})
    server = TokenServer()
    with (
        Organization(shared_cluster, operator, namespace) as org,
        receiving(server.guard) as receiver,
        receiving(server.answer) as tokens,
    ):
        reference = {"name": "api", "key": "token"}
        oauth2 = {"clientId": CLIENT_ID, "clientSecretRef": reference, "tokenUrl": tokens.url, "scopes": ["events"]}
        tls = {"caCertificateRefs": [{"name": "ca"}], "clientCertificateRef": {"name": "pair"}}
        trusted = tls_receiver.trusted
        org.apply(manifest("Project", "billing"), credential(CLIENT_SECRET), client_pair(trusted.issue("acme")))
        org.apply(certificates("ca", trusted.pem.decode()), endpoint("mutual", tls_receiver.url, tls=tls))
        org.with_endpoint(endpoint("orders", receiver.url, oauth2=oauth2))
        org.wait_for("hwep", "mutual", "True Delivering")
        url = f"{operator.intake_url}/v1alpha1/namespaces/{namespace}/webhookendpoints/orders/test"
        assert org.client.post(url, headers={"Authorization": f"Bearer {org.token}"}).json()["success"]
        org.send(delivered("first"))
        eventually(lambda: len(receiver.received) == 2 and tls_receiver.clients == ["acme"], "all arrive")
        connect_proxy.stop()
        org.send(delivered("late"))
        eventually(lambda: org.metric("hookwright_own_faults_total", reason="proxy") >= 4, "both wait")
        connect_proxy.start()
        eventually(lambda: len(receiver.received) == 3 and len(tls_receiver.clients) == 2, "what waited arrives")
        assert message_ids(receiver.received)[1:] == ["first", "late"]
        peers = {request.peer for request in (*receiver.received, *tokens.received)}
        assert peers | {peer for peer, _ in tls_receiver.requests} == {PROXY_ADDRESS}
        eventually(lambda: org.metric("hookwright_delivery_attempts_total", result="delivered") == 4, "four attempts")
        assert org.metric("hookwright_delivery_attempts_total", result="failed") == 0
