"""The way by a kubeconfig: resources of the cluster, and the intake for deliveries. RBAC alone decides."""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.ways import endpoint_form
from hookwright_cli.ways.cluster_client import FIELD_MANAGER, ClusterClient, core, resources
from hookwright_cli.ways.cluster_overview import overview_of
from hookwright_cli.ways.http_caller import HttpCaller, path_of
from hookwright_cli.ways.intake_access import open_intake
from hookwright_cli.ways.key_minting import new_key
from hookwright_cli.ways.user_form import hashed, normal_address, secret_name_of, user_document, user_manifest
from hookwright_cli.ways.way import Document

_WAIT_SECONDS = 15.0
_MADE_BY_API = "hookwright-api"


class KubeconfigWay:
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

    kind = "kubeconfig"

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
        self.cluster, self.installation, self._users_namespace = cluster, installation, users_namespace
        self.namespace = namespace or cluster.namespace
        self._project, self._account, self._everywhere = project, account, everywhere
        self._scope = f"namespace {self.namespace}"

    @property
    def place(self) -> str:
        """The words for this way."""
        return f"kubeconfig, cluster {self.cluster.name}, {self._scope}, installation {self.installation}"

    def close(self) -> None:
        """Close the connections."""
        if "_intake" in self.__dict__:
            self._intake.close()
        self.cluster.close()

    @cached_property
    def _intake(self) -> HttpCaller:
        return open_intake(self.cluster, self.installation, self._account)

    def _at(self, *parts: str) -> str:
        return path_of("v1alpha1", "namespaces", self.namespace, *parts)

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
        return self._until(name, lambda found: endpoint_form.state_of(found) != "pending")

    def _until(self, name: str, settled: Any) -> Document:
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            found = self._object(name)
            if settled(found) or time.monotonic() > deadline:
                return endpoint_form.endpoint_document(found)
            time.sleep(0.2)

    def change_endpoint(self, name: str, patch: Mapping[str, Any]) -> Document:
        """Change a WebhookEndpoint; the fields of one that ``/v1`` created stay those of ``/v1``."""
        changed = self._patch(name, lambda _: endpoint_form.endpoint_patch(patch))
        return endpoint_form.endpoint_document(changed)

    def _patch(self, name: str, change: Any) -> Document:
        found = self._object(name)
        labels = found["metadata"].get("labels") or {}
        made_by_api = labels.get("app.kubernetes.io/managed-by") == _MADE_BY_API
        body = change(found)
        # A patch of the state that was read: a change between the two is a conflict.
        body.setdefault("metadata", {})["resourceVersion"] = found["metadata"]["resourceVersion"]
        manager = _MADE_BY_API if made_by_api else FIELD_MANAGER
        path = resources("webhookendpoints", self.namespace, name)
        try:
            return self.cluster.patch(path, body, manager)
        except CommandError as error:
            if error.code is not ExitCode.CONFLICT:
                raise
            # The status changes often; the next try reads it again.
            found = self._object(name)
            body = change(found)
            return self.cluster.patch(path, body, manager)

    def rotate(self, name: str, overlap: str) -> Document:
        """Raise ``spec.signing.rotation``, and wait for the new secret."""

        def signing(found: Document) -> Document:
            present = (found["spec"].get("signing") or {}).get("rotation", 0)
            return {"spec": {"signing": {"rotation": present + 1, **({"overlap": overlap} if overlap else {})}}}

        wanted = self._patch(name, signing)["spec"]["signing"]["rotation"]
        deadline = time.monotonic() + _WAIT_SECONDS
        while (found := self.signing_secret(name))["rotation"] < wanted:
            if time.monotonic() > deadline:
                raise CommandError(
                    f"the rotation of {name} was requested, and the operator has not made the secret yet",
                    ExitCode.UNAVAILABLE,
                    hint=f"hookwright secret show {name} -n {self.namespace}",
                )
            time.sleep(0.2)
        return {"id": name, "secret": found["secret"], "previous_signs_until": found["previous_signs_until"]}

    def delete_endpoint(self, name: str) -> None:
        """Delete a WebhookEndpoint."""
        self.cluster.request("DELETE", resources("webhookendpoints", self.namespace, name))

    def signing_secret(self, name: str) -> Document:
        """Return the signing secret of an endpoint."""
        return dict(self._intake.call("GET", self._at("webhookendpoints", name, "secret")))

    def test(self, name: str, body: Mapping[str, Any]) -> Document:
        """Send one test event."""
        path = self._at("webhookendpoints", name, "test")
        return dict(self._intake.call("POST", path, body=dict(body) or None))

    def deliveries(self, conditions: Mapping[str, str], limit: int) -> Iterator[Document]:
        """Yield deliveries that meet all conditions, the newest first."""
        scope = {"project": self._project} if self._project else {}
        yield from self._intake.pages(self._at("deliveries"), {**conditions, **scope}, limit)

    def delivery(self, delivery: str) -> Document:
        """Return one delivery."""
        return dict(self._intake.call("GET", self._at("deliveries", delivery)))

    def retry(self, delivery: str) -> Document:
        """Send a delivery again."""
        return dict(self._intake.call("POST", self._at("deliveries", delivery, "retry")))

    def begin_replay(self, name: str, body: Mapping[str, Any]) -> Document:
        """Begin a replay, or count its deliveries."""
        return dict(self._intake.call("POST", self._at("webhookendpoints", name, "replays"), body=dict(body)))

    def replays(self, name: str) -> list[Document]:
        """Return the latest replays of an endpoint."""
        return list(self._intake.call("GET", self._at("webhookendpoints", name, "replays"))["data"])

    def replay(self, name: str, replay: str) -> Document:
        """Return a replay with its progress."""
        return dict(self._intake.call("GET", self._at("webhookendpoints", name, "replays", replay)))

    def cancel_replay(self, name: str, replay: str) -> None:
        """Cancel a running replay."""
        self._intake.call("DELETE", self._at("webhookendpoints", name, "replays", replay))

    def send(self, events: Sequence[Mapping[str, Any]]) -> Document:
        """Send events to the project."""
        return dict(self._intake.call("POST", self._at("projects", self._project_name(), "events"), body=list(events)))

    def take_messages(self, name: str, query: Mapping[str, str]) -> list[Document]:
        """Take messages of an endpoint with pull."""
        return self._long_lived("GET", self._at("webhookendpoints", name, "messages"), params=query)

    def settle_messages(self, name: str, verb: str, body: Mapping[str, Any]) -> list[Document]:
        """Settle messages, by ``ack`` or ``nack``."""
        return self._long_lived("POST", self._at("webhookendpoints", name, "messages", verb), body=dict(body))

    def _long_lived(self, method: str, path: str, **request: Any) -> list[Document]:
        """Return the data of an answer; a new token replaces one that has expired, a new port-forward a broken one."""
        for last in (False, True):
            try:
                return list(self._intake.call(method, path, **request)["data"])
            except CommandError as error:
                if error.status not in {0, 401}:
                    raise
                if "_intake" in self.__dict__:
                    self._intake.close()
                    del self._intake
                if last or error.status == 0:
                    raise
        raise AssertionError

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

    def write_user(self, fields: Mapping[str, str], *, new: bool) -> Document:
        """Write a user, or a new password of an existing user."""
        email = normal_address(fields["email"])
        path = core("secrets", self._users_namespace, secret_name_of(email))
        if not new:
            self.cluster.request("GET", path)
            self.cluster.patch(path, {"stringData": {"passwordHash": hashed(fields["password"])}})
            return {"email": email}
        manifest = user_manifest(
            self._users_namespace,
            email=email,
            organization=fields["organization"],
            password_hash=hashed(fields["password"]),
            role=fields["role"],
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
        return {"email": email, "organization": fields["organization"], "role": fields["role"]}

    def delete_user(self, email: str) -> None:
        """Delete a user."""
        self.cluster.request("DELETE", core("secrets", self._users_namespace, secret_name_of(normal_address(email))))

    def _project_name(self) -> str:
        """Return the chosen project, or the only one of the namespace."""
        if not self._project:
            names = [one["metadata"]["name"] for one in self.cluster.items(resources("projects", self.namespace))]
            if len(names) != 1:
                known = ", ".join(names[:10]) or "none"
                raise CommandError(
                    f"select a project with --project; projects of namespace {self.namespace}: {known}", ExitCode.USAGE
                )
            self._project = names[0]
        return self._project
