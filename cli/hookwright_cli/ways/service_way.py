"""What both ways ask alike: the intake has the documents of ``/v1`` below a namespace."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.ways.http_caller import HttpCaller, path_of

Document = dict[str, Any]


class ServiceWay:
    """A client of ``/v1``, or of the intake for one namespace.

    Args:
        project: name of the project; empty selects the only one where a request needs one.
    """

    endpoints_path = "webhooks"

    def __init__(self, project: str) -> None:
        self._project = project

    @property
    def caller(self) -> HttpCaller:
        """The client of the server, whose base URL has the prefix of this way."""
        raise NotImplementedError

    def call(self, method: str, *path: str, **request: Any) -> Any:
        """Return the document of an answer; the arguments are those of `HttpCaller.call`."""
        return self.caller.call(method, path_of(*path), **request)

    def call_endpoint(
        self, method: str, name: str, *path: str, params: Mapping[str, str] | None = None, body: Any = None
    ) -> Any:
        """Return the document of an answer about an endpoint."""
        scope = self._endpoint_scope()
        return self.call(method, self.endpoints_path, name, *path, params={**(params or {}), **scope}, body=body)

    def deliveries(self, conditions: Mapping[str, str], limit: int) -> Iterator[Document]:
        """Yield deliveries that meet all conditions, the newest first, at most ``limit``."""
        yield from self.caller.pages("/deliveries", {**conditions, **self._log_scope()}, limit)

    def send(self, events: Sequence[Mapping[str, Any]]) -> Document:
        """Send up to 1,000 events."""
        return dict(self.call("POST", *self._events_path(), body=list(events)))

    def _project_name(self) -> str:
        """Return the chosen project, or the only one."""
        if not self._project:
            names = self._project_names()
            if len(names) != 1:
                known = ", ".join(names[:10]) or "none"
                raise CommandError(f"select a project with --project; your projects: {known}", ExitCode.USAGE)
            self._project = names[0]
        return self._project

    def _project_names(self) -> list[str]:
        raise NotImplementedError

    def _events_path(self) -> tuple[str, ...]:
        raise NotImplementedError

    def _endpoint_scope(self) -> dict[str, str]:
        """Return the parameters that name the project of an endpoint."""
        return {}

    def _log_scope(self) -> dict[str, str]:
        """Return the parameters that limit the delivery log to the chosen project."""
        return {"project": self._project} if self._project else {}
