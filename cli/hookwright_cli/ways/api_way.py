"""The way by ``/v1``, with an API key or the session of a user."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from hookwright_cli.command_errors import CommandError, ExitCode, OtherWayError
from hookwright_cli.ways.http_caller import HttpCaller, path_of
from hookwright_cli.ways.way import Document

_ALL = 1_000_000
SENDING_KEY = "export HOOKWRIGHT_API_KEY=$(hookwright keys create NAME --scope send)"
"""The command after which a user of a session can send events."""
_EXAMINED = 50
"""Endpoints whose conditions ``status`` reads, at most."""


class ApiWay:
    """A client of ``/v1``.

    Args:
        url: base URL of the service, without ``/v1``.
        credential: an API key (``hw_…``) or the token of a session.
        project: name of the project; empty selects the only one of a session.
        organization: that of the credential; empty if it is not known.
    """

    kind = "api"

    def __init__(self, url: str, credential: str, project: str = "", *, organization: str = "") -> None:
        self._url = url.rstrip("/").removesuffix("/v1")
        self._has_key = credential.startswith("hw_")
        header = {"X-Service-Key": credential} if self._has_key else {"Authorization": f"Bearer {credential}"}
        self._http = HttpCaller(f"{self._url}/v1", header if credential else {}, place=self._url)
        self._project, self._organization = project, organization

    @property
    def place(self) -> str:
        """The words for this way."""
        organization = f", organization {self._organization}" if self._organization else ""
        return f"/v1 at {self._url}{organization}"

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def log_in(self, email: str, password: str) -> Document:
        """Return a session of a user."""
        return dict(self._http.call("POST", "/auth/login", body={"email": email, "password": password}))

    def log_out(self) -> None:
        """End all sessions of the user."""
        self._http.call("POST", "/auth/logout")

    def me(self) -> Document:
        """Return the user and the projects of a session, or the project of a key."""
        if not self._has_key:
            return dict(self._http.call("GET", "/auth/me"))
        return {"projects": self._http.call("GET", "/projects")["data"]}

    def overview(self) -> Document:
        """Return the state of the projects; the operator is not visible here."""
        me = self.me()
        if self._project:
            me["projects"] = [one for one in me["projects"] if one["name"] == self._project]
        projects = []
        for one in me["projects"]:
            name = one["name"]
            scope = {} if self._has_key else {"project": name}
            listed = list(self._http.pages("/webhooks", scope, _ALL))
            for at, endpoint in enumerate(listed):
                if endpoint["status"] in {"failing", "error"} and at < _EXAMINED:
                    listed[at] = self._http.call("GET", path_of("webhooks", endpoint["id"]), params=scope)
            numbers = self._http.call("GET", path_of("projects", name, "statistics"), params={"window": "1h"})
            projects.append({"name": name, "endpoints": listed, "last_hour": numbers["total"]})
        self._organization = str(me.get("organization") or self._organization)
        place = {"url": self._url, "organization": self._organization or None}
        return {"way": self.kind, **place, "components": [], "projects": projects}

    def endpoints(self) -> list[Document]:
        """Return the endpoints of the project."""
        return list(self._http.pages("/webhooks", self._scope(), _ALL))

    def endpoint(self, name: str) -> Document:
        """Return one endpoint with its conditions and counts."""
        return dict(self._http.call("GET", path_of("webhooks", name), params=self._scope()))

    def create_endpoint(self, name: str, fields: Mapping[str, Any]) -> Document:
        """Create an endpoint. The service chooses its name."""
        if name:
            raise CommandError(
                "by /v1 the service chooses the id of an endpoint: leave the name out, or use --way=kubeconfig",
                ExitCode.OTHER_WAY,
            )
        repeatable = {"Idempotency-Key": f"cli-{uuid4()}"}
        return dict(self._http.call("POST", "/webhooks", params=self._scope(), body=dict(fields), headers=repeatable))

    def change_endpoint(self, name: str, patch: Mapping[str, Any]) -> Document:
        """Change an endpoint by a merge patch."""
        kind = {"Content-Type": "application/merge-patch+json"}
        return dict(
            self._http.call("PATCH", path_of("webhooks", name), params=self._scope(), body=dict(patch), headers=kind)
        )

    def rotate(self, name: str, overlap: str) -> Document:
        """Rotate the signing secret."""
        body = {"overlap": overlap} if overlap else {}
        repeatable = {"Idempotency-Key": f"cli-{uuid4()}"}
        return dict(
            self._http.call(
                "POST", path_of("webhooks", name, "rotate-secret"), params=self._scope(), body=body, headers=repeatable
            )
        )

    def delete_endpoint(self, name: str) -> None:
        """Delete an endpoint."""
        self._http.call("DELETE", path_of("webhooks", name), params=self._scope())

    def signing_secret(self, name: str) -> Document:
        """Return the signing secret of an endpoint; only a session may read it."""
        return dict(self._http.call("GET", path_of("webhooks", name, "secret"), params=self._scope()))

    def test(self, name: str, body: Mapping[str, Any]) -> Document:
        """Send one test event."""
        return dict(
            self._http.call("POST", path_of("webhooks", name, "test"), params=self._scope(), body=dict(body) or None)
        )

    def deliveries(self, conditions: Mapping[str, str], limit: int) -> Iterator[Document]:
        """Yield deliveries that meet all conditions, the newest first."""
        scope = {"project": self._project} if self._project and not self._has_key else {}
        yield from self._http.pages("/deliveries", {**conditions, **scope}, limit)

    def delivery(self, delivery: str) -> Document:
        """Return one delivery."""
        return dict(self._http.call("GET", path_of("deliveries", delivery)))

    def retry(self, delivery: str) -> Document:
        """Send a delivery again."""
        return dict(self._http.call("POST", path_of("deliveries", delivery, "retry")))

    def begin_replay(self, name: str, body: Mapping[str, Any]) -> Document:
        """Begin a replay, or count its deliveries."""
        return dict(
            self._http.call("POST", path_of("webhooks", name, "replays"), params=self._scope(), body=dict(body))
        )

    def replays(self, name: str) -> list[Document]:
        """Return the latest replays of an endpoint."""
        return list(self._http.call("GET", path_of("webhooks", name, "replays"), params=self._scope())["data"])

    def replay(self, name: str, replay: str) -> Document:
        """Return a replay with its progress."""
        return dict(self._http.call("GET", path_of("webhooks", name, "replays", replay), params=self._scope()))

    def cancel_replay(self, name: str, replay: str) -> None:
        """Cancel a running replay."""
        self._http.call("DELETE", path_of("webhooks", name, "replays", replay), params=self._scope())

    def send(self, events: Sequence[Mapping[str, Any]]) -> Document:
        """Send events; the project is that of the key.

        Raises:
            CommandError: the credential is a session, which may not send.
        """
        if not self._has_key:
            raise CommandError(
                "send needs an API key, and this is the session of a login",
                ExitCode.FORBIDDEN,
                hint=SENDING_KEY,
            )
        return dict(self._http.call("POST", "/events", body=list(events)))

    def take_messages(self, name: str, query: Mapping[str, str]) -> list[Document]:
        """Take messages of an endpoint with pull."""
        params = {**query, **self._scope()}
        return list(self._http.call("GET", path_of("webhooks", name, "messages"), params=params)["data"])

    def settle_messages(self, name: str, verb: str, body: Mapping[str, Any]) -> list[Document]:
        """Settle messages, by ``ack`` or ``nack``."""
        path = path_of("webhooks", name, "messages", verb)
        return list(self._http.call("POST", path, params=self._scope(), body=dict(body))["data"])

    def api_keys(self) -> list[Document]:
        """Return the API keys of the project; only a session may read them."""
        project = self._project_name()
        listed = self._http.call("GET", path_of("projects", project, "keys"))["data"]
        return [{**one, "project": project} for one in listed]

    def create_key(self, fields: Mapping[str, Any]) -> Document:
        """Create an API key."""
        repeatable = {"Idempotency-Key": f"cli-{uuid4()}"}
        path = path_of("projects", self._project_name(), "keys")
        return dict(self._http.call("POST", path, body=dict(fields), headers=repeatable))

    def revoke_key(self, key: str) -> None:
        """Revoke an API key."""
        self._http.call("DELETE", path_of("projects", self._project_name(), "keys", key))

    def users(self) -> list[Document]:
        """Refuse: users are Secrets of the cluster."""
        raise OtherWayError("users list", "kubeconfig")

    def write_user(self, fields: Mapping[str, str], *, new: bool) -> Document:
        """Change the password of the session's own user."""
        if new:
            raise OtherWayError("users create", "kubeconfig")
        if "current_password" not in fields:
            raise OtherWayError("the password of another user", "kubeconfig")
        body = {"current_password": fields["current_password"], "new_password": fields["password"]}
        self._http.call("POST", "/auth/password", body=body)
        return {"email": fields["email"]}

    def delete_user(self, email: str) -> None:
        """Refuse: users are Secrets of the cluster."""
        raise OtherWayError(f"users delete {email}", "kubeconfig")

    def _scope(self) -> dict[str, str]:
        return {} if self._has_key else {"project": self._project_name()}

    def _project_name(self) -> str:
        """Return the chosen project, or the only one."""
        if not self._project:
            names = [one["name"] for one in self.me()["projects"]]
            if len(names) != 1:
                known = ", ".join(names[:10]) or "none"
                raise CommandError(f"select a project with --project; your projects: {known}", ExitCode.USAGE)
            self._project = names[0]
        return self._project
