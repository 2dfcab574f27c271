"""Objects of a newer version, as after a rollback: the known part is served, the rest is named."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.api_processes import Organization as ApiOrganization
from support.api_processes import problem_of
from support.cluster_actions import Organization, delivered, endpoint, manifest, message_ids, receiving
from support.polling import eventually
from support.stack import installed_plane

from hookwright_dev.cluster.assets import Assets
from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster

pytestmark = pytest.mark.slow
UNSUPPORTED = "False UnsupportedSpec"


@pytest.fixture(scope="module")
def plane(assets: Assets) -> Iterator[ControlPlane]:
    """Yield a separate control plane with the kinds of a newer version."""
    with installed_plane(assets) as control_plane:
        upgrade_kinds(control_plane)
        yield control_plane


@pytest.fixture(scope="module")
def operator(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """Yield an operator of this version."""
    with OperatorProcess(plane, tmp_path_factory.mktemp("operator"), {"HOOKWRIGHT_STATUS_INTERVAL": "1"}) as process:
        yield process


@pytest.fixture
def org(plane: ControlPlane, operator: OperatorProcess) -> Iterator[Organization]:
    """Yield an organization with a project."""
    plane.objects.create("Namespace", "acme")
    with Organization(plane, operator, "acme") as organization:
        organization.apply(manifest("Project", "billing"))
        yield organization


def upgrade_kinds(cluster: Cluster) -> None:
    """Give endpoints a new field and a new event type, and permit a timeout in words."""
    name = "webhookendpoints.hookwright.dev"
    crd: dict[str, Any] = json.loads(cluster.kubectl("get", "crd", name, "-o", "json").stdout)
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    spec["priority"] = {"type": "string"}
    # A new event type, whose name is in the form of no EventType.
    del spec["events"]["items"]["x-kubernetes-validations"]
    spec["timeout"] = {"type": "string"}
    cluster.kubectl("replace", "-f", "-", stdin=json.dumps(crd))

    def serves() -> bool:
        probe = endpoint("probe", "https://example.com/", events=["rcs_read"], priority="high", timeout="a day")
        return (
            cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(probe), check=False).returncode
            == 0
        )

    eventually(serves, "the newer kinds are served", within=30)


def message(org: Organization, name: str) -> str:
    """Return the message of an endpoint's condition Ready."""
    conditions = org.status("hwep", name).get("conditions", ())
    return next((str(condition["message"]) for condition in conditions if condition["type"] == "Ready"), "")


def test_an_endpoint_of_a_newer_version_is_served_as_far_as_it_is_understood(
    org: Organization, operator: OperatorProcess, plane: ControlPlane, tmp_path: Path
) -> None:
    """Known types are delivered, unknown fields ignored; other deliveries stay pending, also over a restart."""
    with receiving() as receiver:
        paths = {name: f"{receiver.url}{name}" for name in ("field", "type", "value")}
        org.apply(
            endpoint("field", paths["field"], priority="high"),
            endpoint("type", paths["type"], events=["rcs_read", "delivered"]),
            endpoint("value", paths["value"], timeout="a day"),
        )
        org.wait_for("hwep", "field", "True Delivering")
        org.wait_for("hwep", "type", UNSUPPORTED)
        org.wait_for("hwep", "value", UNSUPPORTED)
        assert "spec.priority" in message(org, "field")
        assert "rcs_read" in message(org, "type")
        assert "spec.timeout" in message(org, "value")

        assert org.send(delivered(1))["deliveries"] == 3
        operator.kill()
        operator.start()
        assert org.send(delivered(2))["deliveries"] == 3

        def got(name: str) -> set[str]:
            return set(message_ids([request for request in receiver.received if request.target == f"/{name}"]))

        eventually(lambda: got("field") == got("type") == {"1", "2"}, "both endpoints have both events")
        labels = {"kind": "WebhookEndpoint"}
        eventually(lambda: org.metric("hookwright_unsupported_objects", **labels) == 3, "three objects are counted")
        eventually(lambda: org.status("hwep", "value")["deliveries"]["pending"] == 2, "two deliveries wait")
        assert got("value") == set()

        shown_by_the_api(plane, operator, tmp_path)

        org.patch("hwep", "value", {"spec": {"timeout": "5s"}})
        eventually(lambda: got("value") == {"1", "2"}, "what waited is delivered once it is understood")
        org.wait_for("hwep", "value", "True Delivering")
        eventually(lambda: org.metric("hookwright_unsupported_objects", **labels) == 2, "one is understood now")


def shown_by_the_api(plane: ControlPlane, operator: OperatorProcess, folder: Path) -> None:
    """Check that the API lists all three endpoints, and refuses in a request what this version does not know."""
    with (
        ApiProcess(plane, folder, operator.intake_url, {}) as api,
        httpx.Client(base_url=api.url, trust_env=False, timeout=30.0) as client,
    ):
        acme = ApiOrganization(plane, client, "acme")
        rows = client.get("/v1/webhooks", params={"project": "billing"}, headers=acme.session()).json()["data"]
        assert {row["id"]: row["status"] for row in rows} == {"field": "active", "type": "error", "value": "error"}
        document = client.get("/v1/webhooks/value", params={"project": "billing"}, headers=acme.session()).json()
        assert "spec.timeout" in json.dumps(document["conditions"])
        body = {"url": "https://example.com/", "events": ["rcs_read"]}
        problem_of(client.post("/v1/webhooks", json=body, headers=acme.service_key()), 422)
