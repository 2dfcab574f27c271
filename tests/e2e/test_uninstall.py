"""An uninstallation keeps and names the users' data, and nothing hangs; a new installation continues with it."""

import pytest
from e2e.installing import CRDS, NAMESPACE, Installation
from support.pod_actions import Organization
from support.polling import eventually

FINALIZERS = "jsonpath={.items[*].metadata.finalizers}"


@pytest.fixture
def gone(bare: Installation) -> Organization:
    """Return an organization whose receiver was failing when the chart was uninstalled."""
    bare.install(settings={"retrySchedule": "1s,1s,1s,1s,1s,1s,5s,5s,5s,5s,5s,5s,30s,30s,30s,30s"})
    org = Organization(bare).create()
    org.with_endpoint()
    org.receive("orders", org.secret("orders-signing"), status=500)
    assert org.post({"type": "delivered", "messageId": "m-1"}).json["deliveries"] == 1
    eventually(lambda: org.received("orders")["good"] > 0, "a first attempt, which fails")
    eventually(lambda: "hookwright.dev/deliveries" in org.kubectl("get", "hwep", "-o", FINALIZERS), "the finalizer")
    text = bare.uninstall()
    for name in (*CRDS, "hookwright-operator"):
        assert name in text.stdout + text.stderr, "helm says what it leaves"
    return org


def test_what_is_left_hangs_on_nothing_and_goes_on_with_the_next_installation(gone: Organization) -> None:
    """No finalizer stays; an endpoint can be deleted without an operator; the store's deliveries are sent later."""
    bare = gone.installation
    eventually(lambda: not bare.objects("deployments,pods,jobs"), "no pod is left", within=60)
    assert bare.names("persistentvolumeclaims", "-n", NAMESPACE) == ["hookwright-operator"]
    assert set(CRDS) <= set(bare.names("crd"))
    assert gone.kubectl("get", "hwep,hwproj,hwkey", "-A", "-o", FINALIZERS).strip() == ""
    gone.apply(_endpoint("spare"))
    gone.kubectl("delete", "hwep", "spare", "--timeout=10s")

    gone.receive("orders", gone.secret("orders-signing"))
    bare.install()
    gone.kubectl("wait", "--for=condition=Ready", "hwep/orders", "--timeout=30s")
    gone.arrived("orders", ["m-1"], within=60)
    assert gone.post({"type": "delivered", "messageId": "m-2"}).status == 202
    gone.arrived("orders", ["m-2"])


def _endpoint(name: str) -> dict[str, object]:
    return {
        "apiVersion": "hookwright.dev/v1alpha1",
        "kind": "WebhookEndpoint",
        "metadata": {"name": name},
        "spec": {"projectRef": {"name": "billing"}, "url": "https://example.com/", "events": ["delivered"]},
    }
