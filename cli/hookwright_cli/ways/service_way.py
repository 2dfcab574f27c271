"""Both ways are one client: the intake has the documents of ``/v1`` below a namespace. Refusals become words."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import quote

import httpx

from hookwright_cli import VERSION
from hookwright_cli.command_errors import CommandError, ExitCode, exit_code_of
from hookwright_cli.deadline import DEADLINE

Document = dict[str, Any]
_SECONDS = 40.0
"""A test of an endpoint takes 30 s at most."""
_CONNECT_SECONDS = 10.0
_PAGE = 100


def connect(place: str, url: str, headers: Mapping[str, str], transport: Any = None) -> tuple[str, httpx.Client]:
    """Return the name of a server in messages, and a client with the prefix of a way and a credential."""
    headers = {"User-Agent": f"hookwright-cli/{VERSION}", "Accept-Encoding": "identity", **headers}
    try:
        return place, httpx.Client(base_url=url, headers=headers, transport=transport)
    except (httpx.InvalidURL, ValueError) as error:
        raise CommandError(f"the URL {url!r} is not valid: {error}", ExitCode.USAGE) from None


class ServiceWay:
    """A client of ``/v1``, or of the intake for one namespace.

    Args:
        project: name of the project; empty selects the only one where a request needs one.
    """

    endpoints_path = "webhooks"

    def __init__(self, project: str) -> None:
        self._project = project

    def _connect(self) -> tuple[str, httpx.Client]:
        raise NotImplementedError

    @cached_property
    def _connection(self) -> tuple[str, httpx.Client]:
        return self._connect()

    def close(self) -> None:
        """Close the connections."""
        if "_connection" in vars(self):
            vars(self).pop("_connection")[1].close()

    def call(
        self,
        method: str,
        *path: str,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Return the JSON document of a successful answer, None if it has none."""
        place, client = self._connection
        kind = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
        try:
            with DEADLINE.waiting(place, _SECONDS) as seconds:
                answer = client.request(
                    method,
                    path_of(*path),
                    params=params,
                    json=body,
                    headers={**kind, **(headers or {})},
                    timeout=httpx.Timeout(seconds, connect=min(_CONNECT_SECONDS, seconds)),
                )
        except (httpx.TimeoutException, TimeoutError):
            raise CommandError(f"{place} did not answer in time", ExitCode.UNAVAILABLE) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise CommandError(f"{place} cannot be reached: {error}", ExitCode.UNAVAILABLE) from None
        if not answer.is_success:
            raise refusal(answer.status_code, answer.content, answer.headers.get("retry-after"), place)
        try:
            return json.loads(answer.content) if answer.content else None
        except ValueError:
            raise CommandError(f"{place} answered no JSON; is the URL that of Hookwright?") from None

    def call_endpoint(
        self, method: str, name: str, *path: str, params: Mapping[str, str] | None = None, body: Any = None
    ) -> Any:
        """Return the document of an answer about an endpoint."""
        scope = self._endpoint_scope()
        return self.call(method, self.endpoints_path, name, *path, params={**(params or {}), **scope}, body=body)

    def _pages(self, path: str, params: Mapping[str, str], limit: int) -> Iterator[Document]:
        """Yield the objects of a list that has pages, at most ``limit``."""
        cursor: dict[str, str] = {}
        while limit > 0:
            page = self.call("GET", path, params={**params, "limit": str(min(limit, _PAGE)), **cursor})
            yield from page["data"][:limit]
            limit -= len(page["data"])
            if not page.get("next"):
                return
            cursor = {"cursor": page["next"]}

    def deliveries(self, conditions: Mapping[str, str], limit: int) -> Iterator[Document]:
        """Yield deliveries that meet all conditions, the newest first, at most ``limit``."""
        return self._pages("deliveries", {**conditions, **self._log_scope()}, limit)

    def send(self, events: Sequence[Mapping[str, Any]]) -> Document:
        """Send up to 1,000 events."""
        return dict(self.call("POST", *self._events_path(), body=list(events)))

    def _project_name(self) -> str:
        """Return the chosen project, or the only one."""
        if not self._project:
            names = self.project_names()
            if len(names) != 1:
                choices = ", ".join(names[:10]) or "none"
                raise CommandError(f"select a project with --project; your projects: {choices}", ExitCode.USAGE)
            self._project = names[0]
        return self._project

    def project_names(self) -> list[str]:
        """Return the names of all projects of the organization, or of a key's one."""
        raise NotImplementedError

    def _events_path(self) -> tuple[str, ...]:
        raise NotImplementedError

    def _endpoint_scope(self) -> dict[str, str]:
        """Return the parameters that name the project of an endpoint."""
        return {}

    def _log_scope(self) -> dict[str, str]:
        """Return the parameters that limit the delivery log to the chosen project."""
        return {"project": self._project} if self._project else {}


def path_of(*parts: str) -> str:
    """Return a path whose parts are escaped."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def refusal(status: int, content: bytes, retry_after: str | None, place: str) -> CommandError:
    """Return the error for a refusal: the code and the words of its problem document."""
    try:
        problem = json.loads(content)
        detail = str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        detail, problem = f"{place} answered {status} without a problem document; is the URL that of Hookwright?", {}
    for fault in problem.get("errors") or ():
        # A fault of the whole body has no field.
        field = f"{fault['field']}: " if fault.get("field") else ""
        line = f"{field}{fault.get('message')}"
        if line not in detail:
            detail += f"\n  {line}"
    if status == 500 and problem.get("trace_id"):
        detail += f" (trace_id {problem['trace_id']})"
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
    return CommandError(
        detail,
        exit_code_of(status),
        problem=str(problem.get("code", "")),
        status=status,
        retry_after=seconds,
        hint=f"try again in {retry_after} s" if seconds is not None else "",
    )
