"""``hookwright listen``: a temporary endpoint with pull, whose events go to a receiver on this machine."""

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from hookwright_cli import live_names
from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.deadline import DEADLINE
from hookwright_cli.durations import rfc3339, seconds_of
from hookwright_cli.local_receiver import LocalAnswer, LocalReceiver
from hookwright_cli.terminal.event_lines import event_text, printable
from hookwright_cli.terminal.key_presses import keys_pressed
from hookwright_cli.terminal.screen import Screen
from hookwright_cli.verbs import Invocation

if TYPE_CHECKING:
    from hookwright_cli.way_choice import Way

_LONGEST_WAIT = 20
_AT_ONCE = 10
_BOUNDS = (1, 300)
_LIFETIMES = (10, 86_400)
_RENEWALS = 3
"""The endpoint's expiry is extended so often in its lifetime. An attempt may take the time between two renewals."""
_STARTING_SECONDS = 30.0
"""How long a new endpoint may be unknown or not ready at another replica."""
_LONGEST_PAUSE = 10.0
_LONGEST_REASON = 200


def listen(
    invocation: Invocation,
    forward: Annotated[
        str, typer.Option("--forward", "-f", metavar="URL", help="Where events are posted; only shown, if left out.")
    ] = "",
    events: Annotated[
        list[str] | None,
        typer.Option(
            "--events",
            "-e",
            metavar="TYPE",
            help="Event type or wildcard; repeat it. All, if left out.",
            autocompletion=live_names.type_names,
        ),
    ] = None,
    timeout: Annotated[str, typer.Option("--timeout", metavar="DURATION", help="Of one request, 1s to 5m.")] = "15s",
    lifetime: Annotated[
        str,
        typer.Option(
            "--lifetime",
            metavar="DURATION",
            help="When the endpoint is deleted after a crash, 10s to 24h; extended while this runs.",
        ),
    ] = "15m",
    ack_all: Annotated[
        bool, typer.Option("--ack-all", help="Never retry: also acknowledge events that the receiver refused.")
    ] = False,
) -> None:
    """Show events as they arrive, and forward them to a URL of this machine with their signatures.

    A temporary endpoint exists until Ctrl-C. On a terminal, r sends the last event again.
    """
    seconds = seconds_of(timeout, "--timeout")
    if not _BOUNDS[0] <= seconds <= _BOUNDS[1]:
        raise CommandError(f"--timeout {timeout!r} must be from 1s to 5m", ExitCode.USAGE)
    kept = seconds_of(lifetime, "--lifetime")
    if not max(_LIFETIMES[0], _RENEWALS * seconds) <= kept <= _LIFETIMES[1]:
        raise CommandError(
            f"--lifetime {lifetime!r} must be from 10s to 24h, and at least three times --timeout", ExitCode.USAGE
        )
    receiver = LocalReceiver(forward, seconds) if forward else None
    types = [one for written in events or ["*"] for one in written.split(",")]
    with (
        _ending_by_signals(),
        closing(receiver) if receiver else nullcontext(),
        _temporary_endpoint(invocation, types, timedelta(seconds=kept)) as endpoint,
    ):
        expiry = _Expiry(invocation.way, endpoint, kept)
        session = _Session(invocation.screen, invocation.way, endpoint, expiry, receiver, ack_all=ack_all)
        with keys_pressed(session.pressed) as reading:
            if reading and receiver:
                invocation.screen.note("keys: r sends the last event again, Ctrl-C ends")
            session.run(lease=f"{seconds * _AT_ONCE + 60}s", wait=f"{min(_LONGEST_WAIT, kept // _RENEWALS)}s")


@contextmanager
def _ending_by_signals() -> Iterator[None]:
    """End as by Ctrl-C when the process is terminated or its terminal is closed, so that the endpoint is deleted."""

    def end(number: int, frame: Any) -> None:  # noqa: ARG001
        # A terminal that is closed sends several signals; only Ctrl-C may interrupt the deletion.
        for one in kept:
            if one is not signal.SIGINT:
                signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    wanted = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    # A signal that the parent process ignores, for example by nohup, stays ignored; SIGINT ends in every case.
    kept = {one: signal.getsignal(one) for one in wanted}
    kept = {one: before for one, before in kept.items() if one is signal.SIGINT or before is not signal.SIG_IGN}
    for one in kept:
        signal.signal(one, end)
    try:
        yield
    except KeyboardInterrupt:
        # Ctrl-C is the normal end.
        return
    finally:
        for one, before in kept.items():
            signal.signal(one, before)


@contextmanager
def _temporary_endpoint(invocation: Invocation, types: list[str], lifetime: timedelta) -> Iterator[str]:
    """Make an endpoint with pull, and delete it at the end. After a crash, the operator deletes it when it expires."""
    way, screen = invocation.way, invocation.screen
    fields = {
        "pull": {},
        "events": types,
        "description": "temporary endpoint of `hookwright listen`",
        "expires_at": rfc3339(datetime.now(UTC) + lifetime),
    }
    wanted = "" if way.kind == "api" else f"listen-{uuid4().hex[:12]}"
    try:
        made = way.create_endpoint(wanted, fields)
        endpoint = str(made["id"])
    except KeyboardInterrupt:
        # The endpoint may exist; its name is known only by a kubeconfig.
        if wanted:
            _delete(invocation, wanted)
        raise
    try:
        screen.note(f"listening for {', '.join(types)} in project {made['project']}; endpoint {endpoint} is temporary")
        screen.note(f"signing secret: {_secret(invocation, made)}")
        yield endpoint
    finally:
        _delete(invocation, endpoint)


def _delete(invocation: Invocation, endpoint: str) -> None:
    screen = invocation.screen
    try:
        invocation.way.delete_endpoint(endpoint)
    except CommandError as error:
        if error.code is not ExitCode.NOT_FOUND:
            screen.note(f"endpoint {endpoint} was not deleted: {error}")
            screen.note(f"next: hookwright endpoints delete {endpoint}{invocation.options.scope}")
        return
    except KeyboardInterrupt:
        screen.note(f"endpoint {endpoint} was perhaps not deleted: interrupted")
        raise
    screen.note(f"endpoint {endpoint} is deleted")


def _secret(invocation: Invocation, made: dict[str, Any]) -> str:
    """Return the signing secret, or how to read it."""
    if made.get("secret"):
        return str(made["secret"])
    try:
        return str(invocation.way.call_endpoint("GET", made["id"], "secret")["secret"])
    except CommandError:
        return f"hookwright secret show {made['id']}{invocation.options.scope}"


class _Expiry:
    """The time at which the operator deletes the endpoint.

    Args:
        way: into Hookwright.
        endpoint: its name; it was made now.
        lifetime: seconds from a renewal to the expiry.
    """

    def __init__(self, way: "Way", endpoint: str, lifetime: int) -> None:
        self._way, self._endpoint, self._lifetime = way, endpoint, lifetime
        self._renewed = time.monotonic()

    def extend(self) -> None:
        """Extend it if a third of the lifetime has passed since the last time; if nothing answers, the next call does.

        Raises:
            CommandError: the endpoint was deleted, or the user may not change it.
        """
        now = time.monotonic()
        if now - self._renewed < self._lifetime / _RENEWALS:
            return
        expires_at = rfc3339(datetime.now(UTC) + timedelta(seconds=self._lifetime))
        try:
            self._way.change_endpoint(self._endpoint, {"expires_at": expires_at})
        except CommandError as error:
            if error.code is not ExitCode.UNAVAILABLE:
                raise
            return
        self._renewed = now


class _Session:
    """The events of one endpoint until Ctrl-C."""

    def __init__(
        self,
        screen: Screen,
        way: "Way",
        endpoint: str,
        expiry: _Expiry,
        receiver: LocalReceiver | None,
        *,
        ack_all: bool,
    ) -> None:
        self._screen, self._way, self._endpoint, self._expiry = screen, way, endpoint, expiry
        self._receiver, self._ack_all = receiver, ack_all
        self._last: dict[str, Any] | None = None
        self._trouble = ""
        self._printing = threading.Lock()

    def run(self, *, lease: str, wait: str) -> None:
        """Take messages, forward and settle them, until an exception.

        Args:
            lease: how long a message may take.
            wait: how long a request waits for messages.
        """
        DEADLINE.lift()
        DEADLINE.silence()
        request = {"limit": str(_AT_ONCE), "wait": wait, "lease": lease}
        begun, pause, taken = time.monotonic(), 1.0, False
        while True:
            try:
                self._expiry.extend()
                messages = self._way.call_endpoint("GET", self._endpoint, "messages", params=request)["data"]
                taken, pause, self._trouble = True, 1.0, ""
                for message in messages:
                    self._handle(message)
                    self._expiry.extend()
            except CommandError as error:
                starting = not taken and time.monotonic() - begun < _STARTING_SECONDS
                unready = starting and error.code in {ExitCode.NOT_FOUND, ExitCode.CONFLICT}
                if error.code is not ExitCode.UNAVAILABLE and not unready:
                    raise
                if not unready and str(error) != self._trouble:
                    self._trouble = str(error)
                    self._note(f"{error}; trying again")
                time.sleep(pause if error.retry_after is None else min(error.retry_after, _LONGEST_PAUSE))
                pause = min(pause * 2, _LONGEST_PAUSE)

    def _handle(self, message: dict[str, Any]) -> None:
        self._last = message
        answer = self._receiver.post(message) if self._receiver else None
        accepted = answer is None or answer.accepted or self._ack_all
        body: dict[str, Any] = {"ids": [message["id"]]}
        if answer and not accepted:
            body["reason"] = " ".join(printable(f"listen: {answer.words}").split())[:_LONGEST_REASON]
        try:
            verb = "ack" if accepted else "nack"
            settled = self._way.call_endpoint("POST", self._endpoint, "messages", verb, body=body)["data"][0]
        except CommandError as error:
            # The message was forwarded, so it is shown; it comes again after its lease.
            settled = {"result": "unknown", "status": "pending", "next_attempt_at": None}
            self._show(message, answer, settled)
            if error.code is not ExitCode.UNAVAILABLE:
                raise
            self._note(f"{error}; the event comes again")
            return
        self._show(message, answer, settled)

    def pressed(self, key: str) -> None:
        """Send the last event again on r, in the thread that reads keys; the delivery is not changed."""
        message = self._last
        if key not in {"r", "R"} or self._receiver is None:
            return
        if message is None:
            self._note("no event has arrived yet")
            return
        self._show(message, self._receiver.post(message), None)

    def _note(self, text: str) -> None:
        with self._printing:
            self._screen.note(text)

    def _show(self, message: dict[str, Any], answer: LocalAnswer | None, settled: dict[str, Any] | None) -> None:
        told = dict(message)
        if answer:
            told["forwarded"] = {
                "status": answer.status or None,
                "duration_ms": answer.milliseconds,
                "error": answer.error or None,
                "again": settled is None,
            }
        if settled:
            told |= {name: settled.get(name) for name in ("result", "status", "next_attempt_at")}
        with self._printing:
            self._print(told, answer)

    def _print(self, told: dict[str, Any], answer: LocalAnswer | None) -> None:
        if self._screen.form == "json":
            self._screen.line(json.dumps(told, ensure_ascii=False))
        elif self._screen.form == "name":
            self._screen.line(str(told["delivery_id"]))
        elif self._screen.for_people:
            self._screen.line(event_text(self._screen, told, answer.body if answer else "", datetime.now(UTC)))
        else:
            import yaml

            self._screen.line("---\n" + yaml.safe_dump(told, sort_keys=False, allow_unicode=True).rstrip("\n"))
