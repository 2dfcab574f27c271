"""The way by a kubeconfig: resources of the cluster, and the intake for deliveries. RBAC alone decides."""

import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.ways import endpoint_form
from hookwright_cli.ways.cluster_client import FIELD_MANAGER, ClusterClient, core, resources
from hookwright_cli.ways.cluster_overview import overview_of
from hookwright_cli.ways.http_caller import HttpCaller, path_of
from hookwright_cli.ways.intake_access import open_intake
from hookwright_cli.ways.key_minting import new_key
from hookwright_cli.ways.service_way import Document, ServiceWay
from hookwright_cli.ways.user_form import hashed, normal_address, secret_name_of, user_document, user_manifest

_WAIT_SECONDS = 15.0
_MADE_BY_API = "hookwright-api"


class KubeconfigWay(ServiceWay):
    """A client of one namespace of a cluster.

    Args:
        cluster: the cluster.
        namespace: the organization; empty is the namespace of the kubeconfig's context.
        project: name of the project; empty shows all, and selects the only one for what needs one.
        installation: the namespace of Hookwright.
        users_namespace: the namespace of users.
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

    @property
    def place(self) -> str:
        """The words for this way."""
        return f"kubeconfig, cluster {self.cluster.name}, {self._scope}, installation {self.installation}"

    def close(self) -> None:
        """Close the connections."""
        self._close_intake()
        self.cluster.close()

    @cached_property
    def _intake(self) -> HttpCaller:
        prefix = path_of("v1alpha1", "namespaces", self.namespace)
        return open_intake(self.cluster, self.installation, self._account, prefix)

    def _close_intake(self) -> None:
        if "_intake" in self.__dict__:
            self.__dict__.pop("_intake").close()

    @property
    def caller(self) -> HttpCaller:
        """The client of the intake."""
        return self._intake

    def call(self, method: str, *path: str, **request: Any) -> Any:
        """Return the document of an answer; a new token replaces one that has expired, and a new port a broken one."""
        try:
            return super().call(method, *path, **request)
        except CommandError as error:
            if error.status not in {0, 401}:
                raise
            self._close_intake()
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
        return overview_of(self.cluster, self.installation, "" if self._everywhere else self.namespace)

    def endpoints(self) -> list[Document]:
        """Return the endpoints of the namespace, or of the chosen project."""
        listed = self.cluster.items(resources("webhookendpoints", self.namespace))
        documents = [endpoint_form.endpoint_document(one) for one in listed]
        return [one for one in documents if self._project in {"", one["project"]}]

    def endpoint(self, name: str) -> Document:
        """Return one endpoint."""
        return endpoint_form.endpoint_document(self._object(name))

    def _object(self, name: str) -> Document:
        return dict(self.cluster.request("GET", resources("webhookendpoints", self.namespace, name)))

    def create_endpoint(self, name: str, fields: Mapping[str, Any]) -> Document:
        """Create a WebhookEndpoint, and wait until the operator has reconciled it."""
        if not name:
            raise CommandError("name the endpoint: hookwright endpoints create NAME --to URL …", ExitCode.USAGE)
        manifest = endpoint_form.endpoint_manifest(name, self._project_name(), fields)
        self.cluster.create(resources("webhookendpoints", self.namespace), manifest)
        deadline = time.monotonic() + _WAIT_SECONDS
        while endpoint_form.state_of(endpoint := self._object(name)) == "pending" and time.monotonic() < deadline:
            time.sleep(0.2)
        return endpoint_form.endpoint_document(endpoint)

    def change_endpoint(self, name: str, patch: Mapping[str, Any]) -> Document:
        """Change a WebhookEndpoint; the fields of one that ``/v1`` created stay those of ``/v1``."""
        changed = self._patch(name, lambda _: endpoint_form.endpoint_patch(patch))
        return endpoint_form.endpoint_document(changed)

    def _patch(self, name: str, change: Callable[[Document], Document]) -> Document:
        endpoint = self._object(name)
        labels = endpoint["metadata"].get("labels") or {}
        made_by_api = labels.get("app.kubernetes.io/managed-by") == _MADE_BY_API
        manager = _MADE_BY_API if made_by_api else FIELD_MANAGER
        path = resources("webhookendpoints", self.namespace, name)
        body = change(endpoint)
        # A patch of the state that was read: a change between the two is a conflict.
        body.setdefault("metadata", {})["resourceVersion"] = endpoint["metadata"]["resourceVersion"]
        try:
            return self.cluster.patch(path, body, manager)
        except CommandError as error:
            if error.code is not ExitCode.CONFLICT:
                raise
            # The status changes often; the next try reads it again.
            return self.cluster.patch(path, change(self._object(name)), manager)

    def rotate(self, name: str, overlap: str) -> Document:
        """Raise ``spec.signing.rotation``, and wait for the new secret."""

        def signing(endpoint: Document) -> Document:
            present = (endpoint["spec"].get("signing") or {}).get("rotation", 0)
            return {"spec": {"signing": {"rotation": present + 1, **({"overlap": overlap} if overlap else {})}}}

        rotation = self._patch(name, signing)["spec"]["signing"]["rotation"]
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
        self.cluster.request("DELETE", resources("webhookendpoints", self.namespace, name))

    def api_keys(self) -> list[Document]:
        """Return the ApiKeys of the namespace, or of the chosen project."""
        listed = [endpoint_form.key_document(one) for one in self.cluster.items(resources("apikeys", self.namespace))]
        return [one for one in listed if self._project in {"", one["project"]}]

    def create_key(self, fields: Mapping[str, Any]) -> Document:
        """Create an ApiKey with the digest of a key that is made here."""
        minted = new_key()
        spec = {
            "projectRef": {"name": self._project_name()},
            "displayName": fields["name"],
            "digest": minted.digest,
            **({"expiresAt": fields["expires_at"]} if fields.get("expires_at") else {}),
            **({"scopes": list(fields["scopes"])} if fields.get("scopes") else {}),
        }
        manifest = {
            "apiVersion": "hookwright.dev/v1alpha1",
            "kind": "ApiKey",
            "metadata": {"name": minted.key_id},
            "spec": spec,
        }
        made = endpoint_form.key_document(self.cluster.create(resources("apikeys", self.namespace), manifest))
        shown = {name: made[name] for name in ("id", "name", "scopes", "created_at")}
        return {**shown, "key": minted.plaintext}

    def revoke_key(self, key: str) -> None:
        """Delete an ApiKey."""
        self.cluster.request("DELETE", resources("apikeys", self.namespace, key))

    def users(self) -> list[Document]:
        """Return the users of the installation."""
        listed = self.cluster.items(core("secrets", self._users_namespace), "hookwright.dev/user=true")
        return sorted((user_document(one) for one in listed), key=lambda one: str(one["email"]))

    def create_user(self, *, email: str, organization: str, role: str, password: str) -> Document:
        """Create a user with a normal address."""
        manifest = user_manifest(
            self._users_namespace, email=email, organization=organization, password_hash=hashed(password), role=role
        )
        try:
            self.cluster.create(core("secrets", self._users_namespace), manifest)
        except CommandError as error:
            if error.problem != "AlreadyExists":
                raise
            raise CommandError(
                f"the user {email} exists",
                ExitCode.CONFLICT,
                hint=f"`hookwright users password {email}` changes the password",
            ) from None
        return {"email": email, "organization": organization, "role": role}

    def set_password(self, email: str, password: str) -> None:
        """Write a new password of a user with a normal address."""
        path = core("secrets", self._users_namespace, secret_name_of(email))
        self.cluster.request("GET", path)
        self.cluster.patch(path, {"stringData": {"passwordHash": hashed(password)}})

    def delete_user(self, email: str) -> None:
        """Delete a user."""
        self.cluster.request("DELETE", core("secrets", self._users_namespace, secret_name_of(normal_address(email))))

    def _project_names(self) -> list[str]:
        return [one["metadata"]["name"] for one in self.cluster.items(resources("projects", self.namespace))]

    def _events_path(self) -> tuple[str, ...]:
        return "projects", self._project_name(), "events"
