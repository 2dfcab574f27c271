"""Requests to `/v1` and to the intake. A refusal becomes the words of its problem document."""

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from hookwright_cli import VERSION
from hookwright_cli.command_errors import CommandError, ExitCode, exit_code_of
from hookwright_cli.deadline import DEADLINE

_SECONDS = 40.0
"""A test of an endpoint takes 30 s at most."""
_CONNECT_SECONDS = 10.0
_PAGE = 100


class HttpCaller:
    """A client of one server.

    Args:
        url: base URL.
        headers: of every request, with the credential.
        transport: an httpx transport, None for the network.
        place: the name of the server in messages.
    """

    def __init__(self, url: str, headers: Mapping[str, str], *, transport: Any = None, place: str) -> None:
        import httpx

        self._place = place
        try:
            self._client = httpx.Client(
                base_url=url,
                headers={"User-Agent": f"hookwright-cli/{VERSION}", "Accept-Encoding": "identity", **headers},
                transport=transport,
                timeout=_SECONDS,
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise CommandError(f"the URL {url!r} is not valid: {error}", ExitCode.USAGE) from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = _SECONDS,
    ) -> Any:
        """Return the JSON document of a successful answer, None if it has none.

        Raises:
            CommandError: the request was refused, or there was no answer.
        """
        import httpx

        content = None if body is None else json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        media_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        kind = {"Content-Type": media_type} if content is not None else {}
        try:
            with DEADLINE.waiting(self._place, seconds) as timeout:
                answer = self._client.request(
                    method,
                    path,
                    params=params,
                    content=content,
                    headers={**kind, **(headers or {})},
                    timeout=httpx.Timeout(timeout, connect=min(_CONNECT_SECONDS, timeout)),
                )
        except (httpx.TimeoutException, TimeoutError):
            raise CommandError(f"{self._place} did not answer in time", ExitCode.UNAVAILABLE) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise CommandError(f"{self._place} cannot be reached: {error}", ExitCode.UNAVAILABLE) from None
        if not answer.is_success:
            raise refusal(answer.status_code, answer.content, answer.headers.get("retry-after"), self._place)
        if not answer.content:
            return None
        try:
            return json.loads(answer.content)
        except ValueError:
            raise CommandError(f"{self._place} answered no JSON; is the URL that of Hookwright?") from None

    def pages(self, path: str, params: Mapping[str, str], limit: int) -> Iterator[dict[str, Any]]:
        """Yield the objects of a list that has pages, at most ``limit``."""
        cursor: str | None = None
        while limit > 0:
            page = self.call(
                "GET",
                path,
                params={**params, "limit": str(min(limit, _PAGE)), **({"cursor": cursor} if cursor else {})},
            )
            yield from page["data"][:limit]
            limit -= len(page["data"])
            cursor = page.get("next")
            if not cursor:
                return


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
    waiting = float(retry_after) if retry_after and retry_after.isdigit() else None
    hint = f"try again in {retry_after} s" if waiting is not None else ""
    return CommandError(
        detail,
        exit_code_of(status),
        problem=str(problem.get("code", "")),
        status=status,
        retry_after=waiting,
        hint=hint,
    )
