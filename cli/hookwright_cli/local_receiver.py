"""A receiver on this machine: messages of an endpoint with pull become the requests that a URL would get."""

import base64
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from hookwright_cli import VERSION
from hookwright_cli.command_errors import CommandError, ExitCode

_MOST_OF_ANSWER = 2_000


class LocalAnswer(NamedTuple):
    """The answer of the receiver.

    Attributes:
        status: the HTTP status, 0 without an answer.
        milliseconds: until the answer began, or until the error.
        error: why there is no answer, empty if there is one.
        body: the beginning of the answer's body, as text; empty if the receiver accepted the message.
    """

    status: int
    milliseconds: int
    error: str = ""
    body: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def words(self) -> str:
        """The status, or the error."""
        return self.error or f"HTTP {self.status}"


def body_of(message: Mapping[str, Any]) -> bytes:
    """Return the exact bytes of a message, which are signed."""
    body = str(message["body"])
    return base64.b64decode(body) if message.get("body_encoding") == "base64" else body.encode()


class LocalReceiver:
    """A client of the receiver; threads may share it. It closes its connections by ``close``.

    Args:
        url: where requests are sent, of http or https.
        seconds: time limit of a request.
    """

    def __init__(self, url: str, seconds: float) -> None:
        import httpx

        try:
            parts = urlsplit(url)
            is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_usable = False
        if not is_usable:
            raise CommandError(f"--forward {url!r} must be a URL such as http://localhost:3000/hooks", ExitCode.USAGE)
        self.url, self._seconds = url, seconds
        headers = {"User-Agent": f"hookwright-cli/{VERSION}", "Accept-Encoding": "identity"}
        # A proxy of the environment is for other machines.
        self._client = httpx.Client(headers=headers, timeout=seconds, trust_env=False)
        self.close = self._client.close

    def post(self, message: Mapping[str, Any]) -> LocalAnswer:
        """Send a message with its headers and its exact bytes; redirections are not followed."""
        import httpx

        start = time.monotonic()
        headers = {str(name): str(value) for name, value in message["headers"].items()}
        try:
            with self._client.stream("POST", self.url, content=body_of(message), headers=headers) as answer:
                milliseconds = _since(start)
                body = b"" if answer.is_success else self._beginning(answer, start)
                return LocalAnswer(answer.status_code, milliseconds, body=body.decode(errors="replace"))
        except httpx.TimeoutException:
            return LocalAnswer(0, _since(start), f"no answer in {self._seconds:g} s")
        except (httpx.HTTPError, OSError) as error:
            return LocalAnswer(0, _since(start), str(error) or type(error).__name__)

    def _beginning(self, answer: Any, start: float) -> bytes:
        """Return the beginning of a body, however slowly it comes."""
        body = b""
        for chunk in answer.iter_raw():
            body += chunk
            if len(body) >= _MOST_OF_ANSWER or time.monotonic() - start > self._seconds:
                break
        return body[:_MOST_OF_ANSWER]


def _since(start: float) -> int:
    return round((time.monotonic() - start) * 1000)
