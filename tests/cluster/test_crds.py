"""The API server enforces the contract, names the correct form, and agrees with the models.

Each file below ``crds/good`` and ``crds/bad`` is one case. Comments at the top of a bad one have the text of the
refusal. If a bad one has two documents, the first is accepted, and the second is a change that is refused.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from pydantic import ValidationError

from hookwright_crds import API_VERSION
from hookwright_crds.base import ServerModel
from hookwright_crds.conditions import condition
from hookwright_crds.resources import (
    KINDS,
    ApiKeyStatus,
    DeliveryCounts,
    EventTypeStatus,
    HandoverState,
    HandoverStatus,
    PreviousKey,
    ProjectStatus,
    Resource,
    SecretKeyRef,
    WebhookEndpointStatus,
)
from hookwright_dev.cluster.assets import NEWEST, kubernetes
from hookwright_dev.cluster.kubectl import Cluster, Kubectl
from hookwright_dev.errors import KubectlError

CASES = Path(__file__).parent / "crds"
pytestmark = pytest.mark.usefixtures("control_plane")
NOW = datetime(2030, 1, 31, 12, 0, 0, tzinfo=UTC)
READY = condition("Ready", "True", "Prepared", "All is well.", generation=3, now=NOW)
UNREACHABLE = condition("Reachable", "False", "Answered500", "It answered 500.", generation=3, now=NOW)


def cases(folder: str) -> list[Any]:
    """Return the case files of a folder, each as a parameter named after its file."""
    paths = sorted((CASES / folder).glob("*.yaml"))
    assert paths, f"no cases in {folder}"
    return [pytest.param(path, id=path.stem) for path in paths]


def model_of(manifest: dict[str, Any]) -> type[Resource]:
    """Return the model of a manifest's kind."""
    return next(kind for kind in KINDS if kind.names.kind == manifest["kind"])


@pytest.fixture(scope="module")
def shared(control_plane: Cluster) -> Iterator[str]:
    """Yield a namespace for all cases: accepted objects have different names, and refused ones leave no object."""
    name = f"test-crds-{uuid4().hex[:8]}"
    control_plane.objects.create("Namespace", name)
    yield name
    control_plane.objects.delete("Namespace", name, wait=False)


def endpoint(name: str, **spec: object) -> dict[str, Any]:
    """Return the manifest of an endpoint."""
    minimum = {"projectRef": {"name": "billing"}, "url": "https://example.com/hooks", "events": ["delivered"]}
    return {"apiVersion": API_VERSION, "kind": "WebhookEndpoint", "metadata": {"name": name}, "spec": minimum | spec}


def apikey(name: str, **spec: object) -> dict[str, Any]:
    """Return the manifest of a key that is handed over."""
    minimum = {"projectRef": {"name": "billing"}, "handover": {"secretName": f"{name}-key"}}
    return {"apiVersion": API_VERSION, "kind": "ApiKey", "metadata": {"name": name}, "spec": minimum | spec}


def project(name: str) -> dict[str, Any]:
    """Return the manifest of a project."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Project",
        "metadata": {"name": name},
        "spec": {"displayName": "Billing"},
    }


def event_type(name: str, **spec: object) -> dict[str, Any]:
    """Return the manifest of an event type."""
    minimum = {"meaning": "An invoice is paid."}
    return {"apiVersion": API_VERSION, "kind": "EventType", "metadata": {"name": name}, "spec": minimum | spec}


def report(cluster: Cluster, namespace: str, name: str, status: ServerModel) -> object:
    """Write a status, as the operator does, and return the API server's version of it."""
    kind, _, name = name.partition("/")
    patch = {"status": status.to_kubernetes()}
    return cluster.objects.patch(kind, name, namespace, patch, subresource="status")["status"]


def rows(table: str) -> list[dict[str, str]]:
    """Return the table of ``kubectl get`` as one dictionary per row, by the columns' positions."""
    header, *lines = table.splitlines()
    starts = [match.start() for match in re.finditer(r"(?<!\S)\S+(?: \S+)*", header)]
    spans = list(zip(starts, [*starts[1:], None], strict=True))
    return [{header[a:b].strip(): line[a:b].strip() for a, b in spans} for line in lines]


def as_refused(text: str) -> str:
    """Return a refusal without the invalid value, in whose place the oldest API server shows its type."""
    return text if kubernetes() is NEWEST else re.sub(r'Invalid value: "[^"]*": ', "Invalid value: ", text)


@pytest.mark.parametrize("path", cases("good"))
def test_a_good_manifest_is_accepted_and_the_models_read_it_as_the_server_stores_it(
    shared_cluster: Cluster, shared: str, path: Path
) -> None:
    """Server and models accept the same objects, and set the same defaults."""
    text = path.read_text(encoding="utf-8")
    manifest = yaml.safe_load(text)
    resource = shared_cluster.objects.create_from(text, shared)
    model = model_of(manifest)
    assert model.model_validate(resource).spec == model.model_validate(manifest).spec


def refusal(cluster: Cluster, namespace: str, *documents: str) -> str:
    """Return why the API server refuses the last document: a creation, or the change of an object."""
    objects, (*before, last) = cluster.objects, documents
    objects.apply(*map(yaml.safe_load, before), namespace=namespace)
    create = partial(objects.create_from, last, namespace)
    with pytest.raises(KubectlError) as error:
        (partial(objects.apply, yaml.safe_load(last), namespace=namespace) if before else create)()
    return str(error.value)


@pytest.mark.parametrize("path", cases("bad"))
def test_a_bad_manifest_is_refused_with_its_sentence_and_by_the_models_too(
    shared_cluster: Cluster, shared: str, path: Path
) -> None:
    """The models refuse what the API server refuses. Only the server checks changes, because models see one state."""
    text = path.read_text(encoding="utf-8")
    documents = text.split("---\n")
    message = refusal(shared_cluster, shared, *documents)
    sentences = re.findall(r"^# refused: (.+)$", text, re.MULTILINE)
    assert sentences, "the case does not tell what the refusal says"
    for sentence in sentences:
        assert as_refused(sentence) in as_refused(message)
    manifest = yaml.safe_load(documents[-1])
    if len(documents) > 1:
        model_of(manifest).model_validate(manifest)
    else:
        with pytest.raises(ValidationError):
            model_of(manifest).model_validate(manifest)


@pytest.mark.parametrize(
    "manifest",
    [
        endpoint("userinfo", url="https://user:hunter2@example.com/"),
        endpoint("header", headers={"Authorization": "Bearer hunter2\n"}),
        apikey("plaintext", handover=None, digest="hw_k7qx2m0v9abc_hunter2"),
    ],
    ids=lambda manifest: manifest["metadata"]["name"],
)
def test_a_refusal_does_not_repeat_what_could_be_a_credential(
    shared_cluster: Cluster, shared: str, manifest: dict[str, Any]
) -> None:
    """Refusals appear in terminals, CI logs and audit logs, so neither the server nor the models repeat the value."""
    message = refusal(shared_cluster, shared, yaml.safe_dump(manifest))
    assert "Forbidden" in message
    assert "hunter2" not in message
    with pytest.raises(ValidationError) as error:
        model_of(manifest).model_validate(manifest)
    assert "hunter2" not in str(error.value)


def test_what_is_not_an_identity_can_be_changed(shared_cluster: Cluster, namespace: str) -> None:
    """An endpoint's target, events and limits and a key's expiry can be changed in the manifest."""
    objects = shared_cluster.objects
    objects.apply(endpoint("orders"), apikey("ci"), namespace=namespace)
    objects.apply(
        endpoint("orders", url="https://example.org/", events=["failed"], suspend=True, timeout="5s", maxInFlight=2),
        apikey("ci", expiresAt="2031-01-01T00:00:00Z", displayName="CI"),
        namespace=namespace,
    )
    [resources] = objects.list("WebhookEndpoint", namespace)
    assert resources["spec"]["url"] == "https://example.org/"
    assert resources["spec"]["suspend"] is True
    [resources] = objects.list("ApiKey", namespace)
    assert resources["spec"]["expiresAt"] == "2031-01-01T00:00:00Z"


def test_get_hookwright_lists_every_kind(shared_cluster: Cluster, namespace: str) -> None:
    """One category shows all of Hookwright's objects in a namespace."""
    shared_cluster.objects.apply(
        project("billing"), apikey("ci"), endpoint("orders"), event_type("invoice.paid"), namespace=namespace
    )
    result = shared_cluster.kubectl("get", "hookwright", "-n", namespace, "-o", "name").stdout.split()
    assert sorted(result) == [
        "apikey.hookwright.dev/ci",
        "eventtype.hookwright.dev/invoice.paid",
        "project.hookwright.dev/billing",
        "webhookendpoint.hookwright.dev/orders",
    ]


def test_a_project_row_tells_whether_it_is_well(shared_cluster: Cluster, namespace: str) -> None:
    """The columns of a Project show its readiness and the numbers of its children."""
    shared_cluster.objects.apply(project("billing"), namespace=namespace)
    report(
        shared_cluster, namespace, "hwproj/billing", ProjectStatus(api_keys=1, webhook_endpoints=2, conditions=(READY,))
    )
    [row] = rows(shared_cluster.kubectl("get", "hwproj", "-n", namespace).stdout)
    assert row.pop("AGE")
    assert row == {"NAME": "billing", "READY": "True", "REASON": "Prepared", "KEYS": "1", "ENDPOINTS": "2"}


def test_a_key_row_tells_whether_it_is_well(shared_cluster: Cluster, namespace: str) -> None:
    """The columns of an ApiKey show a future expiry as a full time, not as an invalid age."""
    shared_cluster.objects.apply(apikey("ci", expiresAt="2099-01-01T00:00:00Z"), namespace=namespace)
    handover = HandoverStatus(state=HandoverState.DELIVERED, remove_at=NOW)
    status = ApiKeyStatus(key_id="k7qx2m0v9abc", digest=f"sha256:{'a' * 64}", handover=handover, conditions=(READY,))
    report(shared_cluster, namespace, "hwkey/ci", status)
    [row] = rows(shared_cluster.kubectl("get", "hwkey", "-n", namespace).stdout)
    assert row.pop("AGE")
    assert row == {
        "NAME": "ci",
        "PROJECT": "billing",
        "KEY ID": "k7qx2m0v9abc",
        "HANDOVER": "Delivered",
        "EXPIRES": "2099-01-01T00:00:00Z",
        "READY": "True",
        "REASON": "Prepared",
    }


def test_an_endpoint_row_tells_whether_it_is_well(shared_cluster: Cluster, namespace: str) -> None:
    """The columns of a WebhookEndpoint, with -o wide also its URL and the sentence about its state."""
    shared_cluster.objects.apply(endpoint("orders"), namespace=namespace)
    counts = DeliveryCounts(pending=3, delivered=10, failed=1)
    status = WebhookEndpointStatus(deliveries=counts, conditions=(READY, UNREACHABLE))
    report(shared_cluster, namespace, "hwep/orders", status)
    [row] = rows(shared_cluster.kubectl("get", "hwep", "-n", namespace, "-o", "wide").stdout)
    assert row.pop("AGE")
    narrow = {
        "NAME": "orders", "PROJECT": "billing", "READY": "True", "REASON": "Prepared", "REACHABLE": "False",
        "PENDING": "3", "FAILED": "1",
    }  # fmt: skip
    wide = {"URL": "https://example.com/hooks", "PULL LEASE": "", "SUSPENDED": "false", "MESSAGE": "All is well."}
    assert row == narrow | wide
    [row] = rows(shared_cluster.kubectl("get", "hwep", "-n", namespace).stdout)
    assert row.keys() == narrow.keys() | {"AGE"}


def test_an_event_type_row_tells_whether_it_is_in_use(shared_cluster: Cluster, namespace: str) -> None:
    """The columns of an EventType show how many endpoints name it, and whether it is deprecated."""
    shared_cluster.objects.apply(event_type("invoice.paid", deprecated=True), namespace=namespace)
    status = EventTypeStatus(webhook_endpoints=2, conditions=(READY,))
    report(shared_cluster, namespace, "hwtype/invoice.paid", status)
    [row] = rows(shared_cluster.kubectl("get", "hwtype", "-n", namespace).stdout)
    assert row.pop("AGE")
    assert row == {
        "NAME": "invoice.paid", "READY": "True", "REASON": "Prepared", "DEPRECATED": "true", "ENDPOINTS": "2"
    }  # fmt: skip


def test_a_status_comes_back_as_it_was_written(shared_cluster: Cluster, namespace: str) -> None:
    """The schema has every field of every status model, so the server drops none of them."""
    ready = (READY, UNREACHABLE)
    handover = HandoverStatus(state=HandoverState.REMOVED, remove_at=NOW)
    counts = DeliveryCounts(
        pending=1, delivered=2, failed=3, discarded=4, last_attempt_time=NOW, last_status_code=503
    )  # fmt: skip
    secret = SecretKeyRef(name="orders-signing", key="secret")
    full: dict[str, ServerModel] = {
        "hwproj/billing": ProjectStatus(observed_generation=1, api_keys=1, webhook_endpoints=2, conditions=ready),
        "hwkey/ci": ApiKeyStatus(
            observed_generation=1, key_id="k7q", digest="sha256:00", rotation=1,
            previous=(PreviousKey(digest="sha256:01", until=NOW),), handover=handover, last_used_at=NOW,
            conditions=ready,
        ),
        "hwep/orders": WebhookEndpointStatus(
            observed_generation=1, signing_secret_ref=secret, rotation=2, deliveries=counts, conditions=ready
        ),
        "hwtype/invoice.paid": EventTypeStatus(observed_generation=1, webhook_endpoints=2, conditions=ready),
    }  # fmt: skip
    manifests = (project("billing"), apikey("ci"), endpoint("orders"), event_type("invoice.paid"))
    shared_cluster.objects.apply(*manifests, namespace=namespace)
    for name, status in full.items():
        assert set(status.to_kubernetes()) == {field.alias for field in type(status).model_fields.values()}
        assert report(shared_cluster, namespace, name, status) == status.to_kubernetes()


def test_a_manifest_cannot_write_a_status(shared_cluster: Cluster, namespace: str) -> None:
    """The status is a subresource: a user with the right to write endpoints cannot declare one Ready."""
    manifest = endpoint("orders") | {"status": {"observedGeneration": 7}}
    assert shared_cluster.objects.create_from(yaml.safe_dump(manifest), namespace)["status"] == {
        "observedGeneration": -1
    }


def test_an_object_has_one_condition_of_a_type(shared_cluster: Cluster, namespace: str) -> None:
    """Conditions are a map by type, so two field managers can own one each."""
    shared_cluster.objects.apply(endpoint("orders"), namespace=namespace)
    status = WebhookEndpointStatus(conditions=(READY, READY))
    with pytest.raises(KubectlError, match=re.escape("status.conditions[1]: Duplicate value: ")):
        report(shared_cluster, namespace, "hwep/orders", status)


def test_endpoints_of_one_project_can_be_selected(shared_cluster: Cluster, namespace: str) -> None:
    """``--field-selector spec.projectRef.name=…`` finds the objects of a project."""
    shared_cluster.objects.apply(
        endpoint("orders"), endpoint("newsletter", projectRef={"name": "marketing"}), namespace=namespace
    )
    output = shared_cluster.kubectl(
        "get", "hwep", "-n", namespace, "--field-selector=spec.projectRef.name=marketing", "-o", "name"
    )
    assert output.stdout.split() == ["webhookendpoint.hookwright.dev/newsletter"]


def test_explain_tells_what_a_field_is_for(kubectl: Kubectl) -> None:
    """``kubectl explain`` prints the models' descriptions, with the warning about secrets."""
    url = " ".join(kubectl("explain", "webhookendpoint.spec.url").stdout.split())
    assert "an absolute https URL without userinfo or fragment" in url
    headers = " ".join(kubectl("explain", "webhookendpoint.spec.headers").stdout.split())
    assert "Do not put secrets here" in headers


def test_the_schemas_are_structural(kubectl: Kubectl) -> None:
    """The API server reports no fault of the CRDs: each is established, and none is non-structural."""
    names = [f"crd/{kind.names.plural}.hookwright.dev" for kind in KINDS]
    items = json.loads(kubectl("get", *names, "-o", "json").stdout)["items"]
    for item in items:
        states = {entry["type"]: entry["status"] for entry in item["status"]["conditions"]}
        assert states["Established"] == "True"
        assert "NonStructuralSchema" not in states
