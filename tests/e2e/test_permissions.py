"""RBAC decides at the intake as at the API server, and rights that are not granted are refused."""

import pytest
from e2e.installing import Installation
from support.pod_actions import INTAKE, Answer, Organization
from support.polling import eventually

EVENT = {"type": "delivered", "messageId": "m-1"}


def _account(namespace: str, name: str) -> str:
    return f"--as=system:serviceaccount:{namespace}:{name}"


@pytest.fixture(scope="module")
def tenant(installation: Installation) -> Organization:
    """Return another tenant, with a project and an endpoint."""
    tenant = Organization(installation).create()
    tenant.with_endpoint()
    return tenant


def test_a_tenant_sends_for_its_own_projects_alone(org: Organization, tenant: Organization) -> None:
    """A ServiceAccount's token gets 202 in its own namespace, and 403 in another one, where nothing arrives."""
    org.with_endpoint()
    assert org.post(EVENT).status == 202
    refusal = org.post(EVENT, namespace=tenant.namespace)
    assert (refusal.status, refusal.headers["content-type"]) == (403, "application/problem+json")
    org.arrived("orders", ["m-1"])
    assert tenant.received("orders")["times"] == {}


def test_no_token_or_a_token_for_somebody_else_is_refused(org: Organization) -> None:
    """A request without a credential gets 401, and so does one with another audience."""
    org.with_endpoint()
    url = f"{INTAKE}/v1alpha1/namespaces/{org.namespace}/projects/billing/events"
    assert org.request("POST", url, EVENT).status == 401
    foreign = org.kubectl("create", "token", "default", "--audience=somebody-else").strip()
    assert org.request("POST", url, EVENT, headers={"Authorization": f"Bearer {foreign}"}).status == 401


def test_a_tenant_reads_no_secret_of_another(org: Organization, tenant: Organization) -> None:
    """Neither the intake nor the API server returns it; with the right granted, the intake does."""
    path = f"{INTAKE}/v1alpha1/namespaces/{tenant.namespace}/webhookendpoints/orders/secret"
    assert org.request("GET", path, token=True).status == 403
    arguments = ("get", "secret", "orders-signing", _account(org.namespace, "default"))
    refusal = org.installation.cluster.kubectl(*arguments, "-n", tenant.namespace, check=False)
    assert refusal.returncode != 0
    assert "Forbidden" in refusal.stderr
    tenant.grant("hookwright-intake-admin", org)

    def granted() -> Answer | None:
        answer = org.request("GET", path, token=True)
        return answer if answer.status == 200 else None

    assert eventually(granted, "the right holds").json["secret"] == tenant.secret("orders-signing")
