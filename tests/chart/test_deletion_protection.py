"""An annotated Project or WebhookEndpoint with pending deliveries, and an EventType in use, cannot be deleted."""

from collections.abc import Iterator
from subprocess import CompletedProcess

import pytest
import yaml
from support.chart_rendering import golden, of_kind
from support.polling import eventually

from hookwright_dev.cluster.kubectl import Cluster

ANNOTATION = "hookwright.dev/deletion-protection"
VERSION = "hookwright.dev/v1alpha1"
FINALIZER = "hookwright.dev/deliveries"
KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


class Objects:
    """The objects of one namespace, in a cluster with the chart's policies for this namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> CompletedProcess[str]:
        """Run kubectl in the namespace."""
        return self.cluster.kubectl(*arguments, "-n", self.namespace, stdin=stdin, check=check)

    def project(self, name: str = "billing", *, protected: str = "") -> None:
        """Create a Project, with the annotation if a value is given."""
        self._create("Project", {"metadata": {"name": name, "annotations": _annotations(protected)}})

    def endpoint(
        self,
        name: str,
        *,
        pending: int,
        project: str = "billing",
        finalizers: tuple[str, ...] = (),
        protected: str = "",
    ) -> None:
        """Create an endpoint whose status reports so many pending deliveries."""
        metadata = {"name": name, "annotations": _annotations(protected), "finalizers": list(finalizers)}
        spec = {"projectRef": {"name": project}, "url": "https://example.com/", "events": ["delivered"]}
        self._create("WebhookEndpoint", {"metadata": metadata, "spec": spec})
        self.pending(name, pending)

    def pending(self, name: str, number: int) -> None:
        """Report pending deliveries of an endpoint, as the operator does."""
        status = {"deliveries": {"pending": number}}
        self.cluster.objects.patch("hwep", name, self.namespace, {"status": status}, subresource="status")

    def event_type(self, name: str, *, endpoints: int, finalizers: tuple[str, ...] = ()) -> None:
        """Create an EventType whose status reports so many endpoints that name it."""
        self._create(
            "EventType", {"metadata": {"name": name, "finalizers": list(finalizers)}, "spec": {"meaning": "Paid."}}
        )
        self.used(name, endpoints)

    def used(self, name: str, number: int) -> None:
        """Report how many endpoints name an EventType, as the operator does."""
        status = {"webhookEndpoints": number}
        self.cluster.objects.patch("hwtype", name, self.namespace, {"status": status}, subresource="status")

    def refusal(self, kind: str, name: str) -> str:
        """Return kubectl's error for a deletion that must be refused, as soon as the policy is in force."""

        def denied() -> str:
            result = self.kubectl("delete", kind, name, "--dry-run=server", check=False)
            return result.stderr if result.returncode else ""

        eventually(lambda: bool(denied()), f"deletion of {kind} {name} refused")
        result = self.kubectl("delete", kind, name, check=False)
        assert result.returncode != 0
        assert self.cluster.objects.get(kind, name, self.namespace)
        return result.stderr

    def _create(self, kind: str, fields: dict[str, object]) -> None:
        self.cluster.objects.apply({"apiVersion": VERSION, "kind": kind, **fields}, namespace=self.namespace)


def _annotations(protected: str) -> dict[str, str]:
    return {ANNOTATION: protected} if protected else {}


@pytest.fixture(scope="module")
def protected_cluster(control_plane: Cluster) -> Iterator[Cluster]:
    """Yield a cluster in which the policies of the chart are in force, which takes some seconds."""
    policies = yaml.safe_dump_all(of_kind(golden("default"), *KINDS))
    control_plane.kubectl("apply", "-f", "-", stdin=policies)
    control_plane.objects.create("Namespace", "probes")
    probes = Objects(control_plane, "probes")
    probes.project(protected="true")
    probes.endpoint("probe", pending=1, protected="true")
    probes.refusal("webhookendpoint", "probe")
    probes.refusal("project", "billing")
    probes.event_type("invoice.paid", endpoints=1)
    probes.refusal("eventtype", "invoice.paid")
    yield control_plane
    control_plane.kubectl("delete", "-f", "-", stdin=policies)
    control_plane.objects.delete("Namespace", "probes", wait=False)


@pytest.fixture
def objects(protected_cluster: Cluster, namespace: str) -> Objects:
    """Return the objects of the test's namespace."""
    return Objects(protected_cluster, namespace)


def test_a_protected_endpoint_with_pending_deliveries_is_not_deleted(objects: Objects) -> None:
    """The refusal names the object, the deliveries, and the command after which the deletion succeeds."""
    objects.project()
    objects.endpoint("orders", pending=7, protected="true")
    text = objects.refusal("webhookendpoint", "orders")
    assert f"WebhookEndpoint orders in namespace {objects.namespace} is protected" in text
    assert "has 7 pending deliveries" in text
    command = f"kubectl annotate hwep -n {objects.namespace} orders {ANNOTATION}-"
    assert f"To delete it anyway: {command}" in text
    objects.cluster.kubectl(*command.split()[1:])
    objects.kubectl("delete", "hwep", "orders")


def test_a_protected_endpoint_without_pending_deliveries_is_deleted(objects: Objects) -> None:
    """The protection ends by itself when the last delivery has ended, also if no status was written yet."""
    objects.project()
    objects.endpoint("orders", pending=1, protected="true")
    objects.refusal("webhookendpoint", "orders")
    objects.pending("orders", 0)
    objects.kubectl("delete", "hwep", "orders")


def test_only_annotated_objects_are_protected(objects: Objects) -> None:
    """Objects without the annotation, or with another value, are deleted as before."""
    objects.project()
    objects.project("other", protected="false")
    objects.endpoint("orders", pending=7)
    objects.endpoint("invoices", pending=7, project="other", protected="false")
    objects.kubectl("delete", "hwep", "orders", "invoices")
    objects.kubectl("delete", "hwproj", "billing", "other")


def test_a_protected_project_is_kept_while_one_of_its_endpoints_has_pending_deliveries(objects: Objects) -> None:
    """The refusal names the endpoint; endpoints of other projects do not count."""
    objects.project(protected="true")
    objects.endpoint("idle", pending=0)
    objects.endpoint("orders", pending=2)
    objects.project("other", protected="true")
    objects.endpoint("invoices", pending=0, project="other")
    text = objects.refusal("project", "billing")
    assert f"Project billing in namespace {objects.namespace} is protected" in text
    assert "WebhookEndpoint orders has 2 pending deliveries" in text
    assert f"kubectl annotate hwproj -n {objects.namespace} billing {ANNOTATION}-" in text
    objects.kubectl("delete", "hwproj", "other")
    objects.pending("orders", 0)
    eventually(
        lambda: objects.kubectl("delete", "hwproj", "billing", check=False).returncode == 0,
        "the project of drained endpoints deleted",
    )


def test_a_protected_project_without_endpoints_is_deleted(objects: Objects) -> None:
    """A namespace without any endpoint gives the rule nothing to compare with."""
    objects.project(protected="true")
    objects.kubectl("delete", "hwproj", "billing")


def test_only_the_served_namespaces_have_the_protection() -> None:
    """With namespaces to serve, the policies apply to no other one, which another installation may serve."""
    names = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["acme", "globex"]}
    bindings = list(of_kind(golden("namespaces"), "ValidatingAdmissionPolicyBinding"))
    assert len(bindings) == 3
    for binding in bindings:
        assert binding["spec"]["matchResources"]["namespaceSelector"] == {"matchExpressions": [names]}


def test_an_event_type_in_use_is_not_deleted(objects: Objects) -> None:
    """The refusal says how many endpoints name the type, and its command lists them."""
    objects.event_type("invoice.paid", endpoints=2)
    objects.endpoint("orders", pending=0)
    text = objects.refusal("eventtype", "invoice.paid")
    assert f"EventType invoice.paid in namespace {objects.namespace} is in use" in text
    assert "spec.events of 2 WebhookEndpoint(s) names it. Remove it there first." in text
    output = objects.cluster.kubectl(*text.split("To see them: kubectl ")[1].split()).stdout
    assert output.split() == ["NAME", "EVENTS", "orders", "[delivered]"]
    objects.used("invoice.paid", 0)
    objects.kubectl("delete", "hwtype", "invoice.paid")


def test_an_event_type_whose_deletion_has_begun_goes_with_its_finalizer(objects: Objects) -> None:
    """A second deletion is accepted, so that nothing hangs."""
    objects.event_type("invoice.paid", endpoints=0, finalizers=("example.com/hold",))
    objects.kubectl("delete", "hwtype", "invoice.paid", "--wait=false")
    objects.used("invoice.paid", 1)
    objects.kubectl("delete", "hwtype", "invoice.paid", "--wait=false")
    objects.kubectl("patch", "hwtype", "invoice.paid", "--type=merge", "-p", '{"metadata": {"finalizers": []}}')
    assert "invoice" not in objects.kubectl("get", "hwtype", "-o", "name").stdout


def test_a_deletion_that_has_begun_can_end(objects: Objects) -> None:
    """The operator removes its finalizer, and a second deletion is accepted, although deliveries are pending."""
    objects.project()
    objects.endpoint("orders", pending=7, finalizers=(FINALIZER,))
    objects.kubectl("delete", "hwep", "orders", "--wait=false")
    objects.kubectl("annotate", "hwep", "orders", f"{ANNOTATION}=true")
    objects.kubectl("delete", "hwep", "orders", "--wait=false")
    objects.kubectl("patch", "hwep", "orders", "--type=merge", "-p", '{"metadata": {"finalizers": []}}')
    assert "orders" not in objects.kubectl("get", "hwep", "-o", "name").stdout


def test_a_collection_is_deleted_except_the_protected_objects(objects: Objects) -> None:
    """One request for all endpoints of a namespace is refused in the same words."""
    objects.project()
    objects.endpoint("orders", pending=7, protected="true")
    path = f"/apis/hookwright.dev/v1alpha1/namespaces/{objects.namespace}/webhookendpoints"
    result = objects.cluster.kubectl("delete", "--raw", path, check=False)
    assert result.returncode != 0
    assert "is protected by the annotation" in result.stderr
    assert "orders" in objects.kubectl("get", "hwep", "-o", "name").stdout


def test_a_namespace_can_be_deleted(objects: Objects) -> None:
    """Objects of a namespace that is being deleted are not protected: half of a tenant would remain."""
    objects.project(protected="true")
    objects.endpoint("orders", pending=7, protected="true")
    objects.event_type("invoice.paid", endpoints=1)
    objects.cluster.kubectl("delete", "namespace", objects.namespace, "--wait=true", "--timeout=45s")
    objects.cluster.kubectl("create", "namespace", objects.namespace)  # the fixture deletes it
