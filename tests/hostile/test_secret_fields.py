"""Fields of Secrets that are too long for what they name."""

from integration.api import conftest as shared
from support.cluster_actions import Organization, endpoint, manifest
from support.polling import eventually

from hookwright_crds.sessions import SESSION_KEYS_NAME
from hookwright_dev.cluster.installation import USERS_NAMESPACE, OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster

control_plane, operator = shared.control_plane, shared.operator


def test_a_secret_field_that_is_too_long_is_invalid_and_session_keys_are_read(
    control_plane: Cluster, operator: OperatorProcess, namespace: str
) -> None:
    """The condition names the Secret and the field; nothing that the operator itself writes is cut."""
    with Organization(control_plane, operator, namespace) as org:
        org.apply(manifest("Project", "billing"))
        org.with_endpoint(endpoint("orders", "http://127.0.0.1:9/"))
        org.patch("secret", "orders-signing", {"stringData": {"secret": "whsec_" + "QUFB" * 2000}})
        org.wait_for("hwep", "orders", "False SigningSecretInvalid")
        org.patch("secret", "orders-signing", {"stringData": {"secret": "whsec_" + "QUFB" * 11}})
        org.wait_for("hwep", "orders", "True Delivering")

        def session_keys() -> dict[str, str]:
            return dict((control_plane.objects.get("Secret", SESSION_KEYS_NAME, USERS_NAMESPACE) or {}).get("data", {}))

        creation = eventually(session_keys, "session keys are made", within=30)
        assert operator.stop() == 0
        operator.start()
        org.patch("secret", "orders-signing", {"metadata": {"annotations": {"touched": "1"}}})
        org.wait_for("hwep", "orders", "True Delivering")
        assert session_keys() == creation
