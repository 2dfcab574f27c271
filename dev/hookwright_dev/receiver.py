"""A small real HTTP receiver that checks the signatures of its deliveries.

On the command line it prints one line for each delivery::

    python -m hookwright_dev.receiver --secret-file signing-secret --fail-first 2

In tests and in the demo :class:`Receiver` runs in process. It recomputes both signatures from the raw
bytes with separate code, so that it finds an error in Hookwright's code.
"""

import argparse
import asyncio
import base64
import hashlib
import hmac
import json
import os
import signal
import ssl
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from aiohttp import web
from multidict import CIMultiDictProxy

MAX_BODY: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Received:
    """One request as received.

    Attributes:
        headers: looked up without regard to case.
        body: the raw bytes.
        at: when it was complete, in seconds since the epoch.
        attempt: how many requests with this ``webhook-id`` have arrived so far, this one included.
        target: path and query as they were sent.
        method: of the request.
        peer: address of its sender.
    """

    headers: CIMultiDictProxy[str]
    body: bytes
    at: float
    attempt: int = 1
    target: str = "/"
    method: str = "POST"
    peer: str = ""

    @property
    def id(self) -> str:
        """The value of ``webhook-id``."""
        return self.headers.get("webhook-id", "")

    @property
    def type(self) -> str:
        """Event type in the body, '' if it has none."""
        try:
            event = json.loads(self.body)
        except ValueError:
            return ""
        return str(event.get("type", "")) if isinstance(event, dict) else ""


Answer = Callable[[Received], int | web.StreamResponse | Awaitable[int | web.StreamResponse]]
"""Function that returns the answer: a status, or a response of aiohttp's."""


def verdict(headers: Mapping[str, str], body: bytes, secrets: Sequence[str]) -> str:
    """Return the error in the signatures of a request, '' if there is none.

    Args:
        headers: of the request.
        body: its raw bytes.
        secrets: those that this receiver knows; one matching secret is enough, as during a rotation.
    """
    plain = headers.get("X-Service-Signature", "")
    if not any(hmac.compare_digest(_hex(secret, body), plain) for secret in secrets):
        return "X-Service-Signature does not match"
    content = f"{headers.get('webhook-id', '')}.{headers.get('webhook-timestamp', '')}.".encode() + body
    values = headers.get("webhook-signature", "").split()
    if not any(hmac.compare_digest(_standard(secret, content), value) for secret in secrets for value in values):
        return "webhook-signature does not match"
    return ""


class Receiver:
    """An HTTP server on loopback that keeps its requests. Use it as an async context manager, or start and stop it.

    Args:
        host: address to listen on.
        port: 0 for any free one.
        tls: serves https if given.

    Attributes:
        received: every request so far, in order.
        answer: decides on the answer to a request; may be replaced at any time. 200 by default.
    """

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.received: list[Received] = []
        self.answer: Answer = lambda _: 200
        self._host = host
        self._port = port
        self._tls = tls
        self._attempts: dict[str, int] = {}
        self._arrival = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def port(self) -> int:
        """The port it listens on, once started."""
        return self._port

    @property
    def url(self) -> str:
        """URL to post to, once started."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._tls else 'http'}://{host}:{self._port}/"

    async def start(self) -> None:
        """Listen."""
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_route("*", "/{path:.*}", self._take)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port, ssl_context=self._tls).start()
        self._port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Close the port and all connections; start() listens on the same port again."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def wait_for(self, count: int, within: float = 60.0) -> Sequence[Received]:
        """Return all requests as soon as there are ``count``.

        Args:
            count: how many to wait for.
            within: seconds to wait.

        Raises:
            TimeoutError: there were fewer; the message has their number.
        """
        try:
            async with asyncio.timeout(within), self._arrival:
                await self._arrival.wait_for(lambda: len(self.received) >= count)
        except TimeoutError:
            raise TimeoutError(f"{len(self.received)} of {count} requests arrived within {within} s") from None
        return self.received

    async def _take(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        message_id = request.headers.get("webhook-id", "")
        self._attempts[message_id] = self._attempts.get(message_id, 0) + 1
        target, method, peer = request.raw_path, request.method, request.remote or ""
        arrival = Received(request.headers, body, time.time(), self._attempts[message_id], target, method, peer)
        self.received.append(arrival)
        async with self._arrival:
            self._arrival.notify_all()
        answer = self.answer(arrival)
        if isinstance(answer, Awaitable):
            answer = await answer
        return web.Response(status=answer) if isinstance(answer, int) else answer


def _hex(secret: str, body: bytes) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def _standard(secret: str, content: bytes) -> str:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a receiver until it is interrupted."""
    options = _parse(arguments)
    try:
        secrets = [path.read_text().strip() for path in options.secret_file]
        secrets += [os.environ[name] for name in options.secret_env]
        for secret in secrets:
            _standard(secret, b"")
    except (OSError, KeyError, ValueError) as error:
        print(f"cannot read the signing secret (whsec_ and base64): {error}", file=sys.stderr)
        return 2
    try:
        asyncio.run(_serve(options, secrets))
    except OSError as error:
        print(
            f"cannot listen on {options.host}:{options.port}: {error.strerror or error}; choose another --port",
            file=sys.stderr,
        )
        return 1
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hookwright_dev.receiver", description="Receive deliveries and check them.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: any free one)")
    parser.add_argument(
        "--secret-file", type=Path, action="append", default=[], metavar="F", help="file with a signing secret"
    )
    parser.add_argument(
        "--secret-env", action="append", default=[], metavar="NAME", help="environment variable with a signing secret"
    )
    parser.add_argument("--status", type=int, default=200, help="status to answer (default: %(default)s)")
    parser.add_argument(
        "--fail-first", type=int, default=0, metavar="N", help="answer 500 to the first N attempts of each delivery"
    )
    return parser.parse_args(arguments)


async def _serve(options: argparse.Namespace, secrets: Sequence[str]) -> None:
    async def answer(request: Received) -> int:
        status = 500 if request.attempt <= options.fail_first else int(options.status)
        print(_line(request, secrets, status), flush=True)
        return status

    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    receiver = Receiver(host=options.host, port=options.port)
    receiver.answer = answer
    async with receiver:
        print(f"listening on {receiver.url}", flush=True)
        await stopping.wait()


def _line(request: Received, secrets: Sequence[str], status: int) -> str:
    at = datetime.fromtimestamp(request.at, UTC).strftime("%H:%M:%S.%f")[:-3]
    if secrets:
        wrong = verdict(request.headers, request.body, secrets)
        judgement = f"BAD: {wrong}" if wrong else "signatures good"
    else:
        judgement = "signatures not checked (no secret given)"
    return f"{at} {request.id or '-'} {request.type or '-'} attempt {request.attempt} {judgement}, answered {status}"


if __name__ == "__main__":
    raise SystemExit(main())
