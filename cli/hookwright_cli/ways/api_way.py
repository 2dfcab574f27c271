"""The way by ``/v1``, with an API key or the session of a user."""

from collections.abc import Mapping
from typing import Any, Literal
from uuid import uuid4

import httpx

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.ways.service_way import Document, ServiceWay, connect

_NO_LIMIT = 1_000_000
SENDING_KEY = "export HOOKWRIGHT_API_KEY=$(hookwright keys create NAME --scope send)"
"""The command after which a user of a session can send events."""
_MAX_ENDPOINTS = 50
"""Endpoints whose conditions ``status`` reads, at most."""


class ApiWay(ServiceWay):
    """A client of ``/v1``.

    Args:
        url: base URL of the service, without ``/v1``.
        credential: an API key (``hw_…``) or the token of a session.
        project: name of the project; empty selects the only one of a session.
        organization: that of the credential; empty if it is not known.

    Attributes:
        has_key: whether the credential is an API key, which has one project.
    """

    kind: Literal["api"] = "api"

    def __init__(self, url: str, credential: str, project: str = "", *, organization: str = "") -> None:
        super().__init__(project)
        self._url, self._organization = url.rstrip("/").removesuffix("/v1"), organization
        self._credential, self.has_key = credential, credential.startswith("hw_")

    def _connect(self) -> tuple[str, httpx.Client]:
        key = {"X-Service-Key": self._credential} if self.has_key else {"Authorization": f"Bearer {self._credential}"}
        return connect(self._url, f"{self._url}/v1", key if self._credential else {})

    @property
    def place(self) -> str:
        """The words for this way."""
        organization = f", organization {self._organization}" if self._organization else ""
        return f"/v1 at {self._url}{organization}"

    def me(self) -> Document:
        """Return the user and the projects of a session, or the project of a key."""
        if not self.has_key:
            return dict(self.call("GET", "auth", "me"))
        return {"projects": self.call("GET", "projects")["data"]}

    def identity(self) -> Document:
        """Return the service, the user and the names of the projects."""
        me = self.me()
        user = {name: me.get(name) for name in ("email", "organization", "role")}
        projects = [project["name"] for project in me["projects"]]
        return {"url": self._url, **user, "projects": projects, "expires_at": me.get("expires_at")}

    def overview(self) -> Document:
        """Return the state of the projects; the operator is not visible here."""
        me = self.me()
        projects = []
        names = [project["name"] for project in me["projects"]]
        if self._project not in {"", *names}:
            choices = ", ".join(names[:10]) or "none"
            raise CommandError(f'project "{self._project}" does not exist; projects: {choices}', ExitCode.NOT_FOUND)
        for name in [self._project] if self._project else names:
            scope = {} if self.has_key else {"project": name}
            endpoints = list(self._pages("webhooks", scope, _NO_LIMIT))
            for at, endpoint in enumerate(endpoints[:_MAX_ENDPOINTS]):
                if endpoint["status"] in {"failing", "error"}:
                    endpoints[at] = self.call("GET", "webhooks", endpoint["id"], params=scope)
            numbers = self.call("GET", "projects", name, "statistics", params={"window": "1h"})
            projects.append({"name": name, "endpoints": endpoints, "last_hour": numbers["total"]})
        self._organization = str(me.get("organization") or self._organization)
        place = {"url": self._url, "organization": self._organization or None}
        return {"way": self.kind, **place, "components": [], "projects": projects}

    def with_key(self, key: str) -> "ApiWay":
        """Return a way of an API key to the same service."""
        return ApiWay(self._url, key)

    def create_project(self, name: str) -> None:
        """Create a project."""
        self.call("POST", "projects", body={"name": name})

    def delete_project(self, name: str) -> None:
        """Delete a project with its keys and endpoints."""
        self.call("DELETE", "projects", name, params={"force": "true"})

    def endpoints(self) -> list[Document]:
        """Return the endpoints of the project."""
        return list(self._pages("webhooks", self._endpoint_scope(), _NO_LIMIT))

    def endpoint(self, name: str) -> Document:
        """Return one endpoint with its conditions and counts."""
        return dict(self.call_endpoint("GET", name))

    def create_endpoint(self, name: str, fields: Mapping[str, Any]) -> Document:
        """Create an endpoint. The service chooses its name."""
        if name:
            raise CommandError(
                "by /v1 the service chooses the id of an endpoint: leave the name out, or use --way=kubeconfig",
                ExitCode.OTHER_WAY,
            )
        return self._call_once("webhooks", params=self._endpoint_scope(), body=fields)

    def change_endpoint(self, name: str, patch: Mapping[str, Any]) -> Document:
        """Change an endpoint by a merge patch."""
        return dict(self.call_endpoint("PATCH", name, body=patch))

    def rotate(self, name: str, overlap: str) -> Document:
        """Request a new signing secret; an empty overlap is the present one."""
        body = {"overlap": overlap} if overlap else {}
        return self._call_once("webhooks", name, "rotate-secret", params=self._endpoint_scope(), body=body)

    def delete_endpoint(self, name: str) -> None:
        """Delete an endpoint."""
        self.call_endpoint("DELETE", name)

    def event_types(self) -> list[Document]:
        """Return the event types of the organization, also the built-in ones."""
        return list(self.call("GET", "event-types")["data"])

    def api_keys(self) -> list[Document]:
        """Return the API keys of the project; only a session may read them."""
        project = self._project_name()
        return [{**key, "project": project} for key in self.call("GET", "projects", project, "keys")["data"]]

    def create_key(self, fields: Mapping[str, Any]) -> Document:
        """Create an API key; only this answer has the key."""
        return self._call_once("projects", self._project_name(), "keys", body=fields)

    def revoke_key(self, key: str) -> None:
        """Revoke an API key."""
        self.call("DELETE", "projects", self._project_name(), "keys", key)

    def _call_once(self, *path: str, params: Mapping[str, str] | None = None, body: Mapping[str, Any]) -> Document:
        """Send a POST whose repetition does nothing more."""
        headers = {"Idempotency-Key": f"cli-{uuid4()}"}
        return dict(self.call("POST", *path, params=params, body=body, headers=headers))

    def project_names(self) -> list[str]:
        """Return the names of all projects of the organization, or of a key's one."""
        return [project["name"] for project in self.me()["projects"]]

    def _events_path(self) -> tuple[str, ...]:
        if not self.has_key:
            message = "send needs an API key, and this is the session of a login"
            raise CommandError(message, ExitCode.FORBIDDEN, hint=SENDING_KEY)
        return ("events",)

    def _endpoint_scope(self) -> dict[str, str]:
        return {} if self.has_key else {"project": self._project_name()}

    def _log_scope(self) -> dict[str, str]:
        return {} if self.has_key else super()._log_scope()
