"""The way by a kubeconfig: resources of the cluster, and the intake for deliveries. RBAC alone decides."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import httpx

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.contract import EVENT_TYPES
from hookwright_cli.ways import resource_forms
from hookwright_cli.ways.cluster_client import FIELD_MANAGER, ClusterClient, core, resources
from hookwright_cli.ways.cluster_overview import overview_of
from hookwright_cli.ways.pod_access import connect_intake
from hookwright_cli.ways.service_way import Document, ServiceWay, path_of

_WAIT_SECONDS = 15.0
_MADE_BY_API = "hookwright-api"


class KubeconfigWay(ServiceWay):
    """A client of one namespace of a cluster.

    Args:
        cluster: the cluster.
        namespace: the organization; empty is the namespace of the kubeconfig's context.
        project: name of the project; empty shows all, and selects the only one for what needs one.
        installation: the namespace of Hookwright.
        account: the ServiceAccount whose rights are used on the intake.
        everywhere: whether ``status`` shows all namespaces.
    """

    kind: Literal["kubeconfig"] = "kubeconfig"
    endpoints_path = "webhookendpoints"

    def __init__(
        self,
        cluster: ClusterClient,
        *,
        namespace: str = "",
        project: str = "",
        installation: str = "hookwright-system",
        users_namespace: str = "hookwright-system-users",
        account: str = "hookwright-support",
        everywhere: bool = True,
    ) -> None:
        super().__init__(project)
        self.cluster, self.installation, self._users_namespace = cluster, installation, users_namespace
        self.namespace = namespace or cluster.namespace
        self._account, self._everywhere = account, everywhere
        self._scope = f"namespace {self.namespace}"

    def _connect(self) -> tuple[str, httpx.Client]:
        prefix = path_of("v1alpha1", "namespaces", self.namespace)
        return connect_intake(self.cluster, self.installation, self._account, prefix)

    @property
    def place(self) -> str:
        """The words for this way."""
        return f"kubeconfig, cluster {self.cluster.name}, {self._scope}, installation {self.installation}"

    def close(self) -> None:
        """Close the connections."""
        super().close()
        self.cluster.close()

    def call(self, method: str, *path: str, **request: Any) -> Any:
        """Return the document of an answer; a new token replaces one that has expired, and a new port a broken one."""
        try:
            return super().call(method, *path, **request)
        except CommandError as error:
            if error.status not in {0, 401}:
                raise
            super().close()
            if error.status == 0:
                raise
        return super().call(method, *path, **request)

    def identity(self) -> Document:
        """Return the cluster, the namespace and the installation."""
        return {"kube_context": self.cluster.name, "namespace": self.namespace, "installation": self.installation}

    def overview(self) -> Document:
        """Return the state of the installation and of its resources."""
        if self._everywhere:
            self._scope = "all namespaces"
        overview = overview_of(self.cluster, self.installation, "" if self._everywhere else self.namespace)
        if not self._everywhere:
            self._checked(overview["projects"])
        return overview

    def endpoints(self) -> list[Document]:
        """Return the endpoints of the namespace, or of the chosen project."""
        return self._of_project("webhookendpoints", resource_forms.endpoint_document)

    def _of_project(self, plural: str, form: Callable[[Document], Document]) -> list[Document]:
        documents = [form(resource) for resource in self.cluster.items(resources(plural, self.namespace))]
        return self._checked([document for document in documents if self._project in {"", document["project"]}])

    def deliveries(self, conditions: Mapping[str, str], limit: int) -> Iterator[Document]:
        """Yield deliveries that meet all conditions, the newest first, at most ``limit``."""
        yield from self._checked(list(super().deliveries(conditions, limit)))

    def _checked(self, documents: list[Document]) -> list[Document]:
        """Return a list; if it is empty, the namespace and the chosen project must exist."""
        if not documents:
            self._check_existence(core("namespaces", "", self.namespace))
            self._check_project()
        return documents

    def _check_project(self) -> None:
        """Refuse a chosen project that does not exist."""
        if self._project:
            self._check_existence(resources("projects", self.namespace, self._project))

    def _check_existence(self, path: str) -> None:
        """Refuse a path without an object; a user who may not read it is not refused."""
        try:
            self.cluster.request("GET", path)
        except CommandError as error:
            if error.code is not ExitCode.FORBIDDEN:
                raise

    def endpoint(self, name: str) -> Document:
        """Return one endpoint."""
        return resource_forms.endpoint_document(self._object(name))

    def _path(self, name: str) -> str:
        return resources("webhookendpoints", self.namespace, name)

    def _object(self, name: str) -> Document:
        return dict(self.cluster.request("GET", self._path(name)))

    def create_endpoint(self, name: str, fields: Mapping[str, Any]) -> Document:
        """Create a WebhookEndpoint, and wait until the operator has reconciled it."""
        if not name:
            raise CommandError("name the endpoint: hookwright endpoints create NAME --to URL …", ExitCode.USAGE)
        self._check_project()
        manifest = resource_forms.endpoint_manifest(name, self._project_name(), fields)
        self.cluster.create(resources("webhookendpoints", self.namespace), manifest)
        deadline = time.monotonic() + _WAIT_SECONDS
        while (endpoint := self.endpoint(name))["status"] == "pending" and time.monotonic() < deadline:
            time.sleep(0.2)
        return endpoint

    def change_endpoint(self, name: str, patch: Mapping[str, Any]) -> Document:
        """Change a WebhookEndpoint."""
        endpoint = self._patch(self._object(name), resource_forms.endpoint_patch(patch))
        return resource_forms.endpoint_document(endpoint)

    def _patch(self, endpoint: Document, body: Document) -> Document:
        """Apply a merge patch; the fields of an endpoint that ``/v1`` created stay those of ``/v1``."""
        meta = endpoint["metadata"]
        is_of_api = (meta.get("labels") or {}).get("app.kubernetes.io/managed-by") == _MADE_BY_API
        return self.cluster.patch(self._path(meta["name"]), body, _MADE_BY_API if is_of_api else FIELD_MANAGER)

    def _request_rotation(self, name: str, overlap: str) -> int:
        """Raise ``spec.signing.rotation``, and return it; another change in between is a conflict."""
        endpoint = self._object(name)
        rotation: int = (endpoint["spec"].get("signing") or {}).get("rotation", 0) + 1
        signing = {"rotation": rotation, **({"overlap": overlap} if overlap else {})}
        version = {"resourceVersion": endpoint["metadata"]["resourceVersion"]}
        self._patch(endpoint, {"metadata": version, "spec": {"signing": signing}})
        return rotation

    def rotate(self, name: str, overlap: str) -> Document:
        """Raise ``spec.signing.rotation``, and wait for the new secret."""
        try:
            rotation = self._request_rotation(name, overlap)
        except CommandError as error:
            if error.code is not ExitCode.CONFLICT:
                raise
            # The status changes often; the next attempt reads it again.
            rotation = self._request_rotation(name, overlap)
        deadline = time.monotonic() + _WAIT_SECONDS
        while (secret := self.call_endpoint("GET", name, "secret"))["rotation"] < rotation:
            if time.monotonic() > deadline:
                raise CommandError(
                    f"the rotation of {name} was requested, and the operator has not made the secret yet",
                    ExitCode.UNAVAILABLE,
                    hint=f"hookwright secret show {name} -n {self.namespace}",
                )
            time.sleep(0.2)
        return {"id": name, "secret": secret["secret"], "previous_signs_until": secret["previous_signs_until"]}

    def delete_endpoint(self, name: str) -> None:
        """Delete a WebhookEndpoint."""
        self.cluster.request("DELETE", self._path(name))

    def event_types(self) -> list[Document]:
        """Return the built-in event types, and the EventTypes of the namespace."""
        own_types = self.cluster.items(resources("eventtypes", self.namespace))
        return [*EVENT_TYPES.values(), *map(resource_forms.event_type_document, own_types)]

    def api_keys(self) -> list[Document]:
        """Return the ApiKeys of the namespace, or of the chosen project."""
        return self._of_project("apikeys", resource_forms.key_document)

    def create_key(self, fields: Mapping[str, Any]) -> Document:
        """Create an ApiKey with the digest of a key that is made here."""
        self._check_project()
        key = resource_forms.new_key()
        manifest = resource_forms.key_manifest(key, self._project_name(), fields)
        document = resource_forms.key_document(self.cluster.create(resources("apikeys", self.namespace), manifest))
        return {**{name: document[name] for name in ("id", "name", "scopes", "created_at")}, "key": key}

    def revoke_key(self, key: str) -> None:
        """Delete an ApiKey."""
        self.cluster.request("DELETE", resources("apikeys", self.namespace, key))

    def users(self) -> list[Document]:
        """Return the users of the installation."""
        secrets = self.cluster.items(self.user_path(), "hookwright.dev/user=true")
        return sorted(map(resource_forms.user_document, secrets), key=lambda user: str(user["email"]))

    def user_path(self, email: str | None = None) -> str:
        """Return the path of the Secrets of all users, or of one."""
        name = None if email is None else resource_forms.secret_name_of(resource_forms.normal_address(email))
        return core("secrets", self._users_namespace, name)

    def create_project(self, name: str) -> None:
        """Create a Project."""
        manifest = {"apiVersion": "hookwright.dev/v1alpha1", "kind": "Project", "metadata": {"name": name}}
        self.cluster.create(resources("projects", self.namespace), manifest)

    def delete_project(self, name: str) -> None:
        """Delete a Project."""
        self.cluster.request("DELETE", resources("projects", self.namespace, name))

    def project_names(self) -> list[str]:
        """Return the names of all projects of the namespace."""
        return self.cluster.names(resources("projects", self.namespace))

    def _events_path(self) -> tuple[str, ...]:
        return "projects", self._project_name(), "events"
