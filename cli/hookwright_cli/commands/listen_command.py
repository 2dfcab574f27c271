"""``hookwright listen``: a temporary endpoint with pull, whose events go to a receiver on this machine."""

import os
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.deadline import DEADLINE
from hookwright_cli.durations import rfc3339, seconds_of
from hookwright_cli.local_receiver import LocalAnswer, LocalReceiver
from hookwright_cli.parameters import type_patterns
from hookwright_cli.terminal.event_lines import clock_time, event_details, event_line, event_text, webhook_id_of
from hookwright_cli.terminal.event_list import EventList, ListedEvent, keys_of
from hookwright_cli.terminal.screen import Screen, plain
from hookwright_cli.verbs import Invocation
from hookwright_cli.way_choice import option

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
_EVENT_SECONDS = 60.0
"""How long a certain event may take."""
_LONGEST_REASON = 200
_REDRAW_SECONDS = 0.5
_EVENTS = "Event type or wildcard; repeat it. All, if left out."
_LIFETIME = "When the endpoint is deleted after a crash, 10s to 24h; extended while this runs."
_ACK_ALL = "Never retry: also acknowledge events that the receiver refused."


def listen(
    invocation: Invocation,
    forward: Annotated[str, option("--forward -f", "URL", "Where events are posted; only shown, if left out.")] = "",
    events: Annotated[list[str] | None, option("--events -e", "TYPE", _EVENTS, autocompletion=type_patterns)] = None,
    timeout: Annotated[str, option("--timeout", "DURATION", "Of one request, 1s to 5m.")] = "15s",
    lifetime: Annotated[str, option("--lifetime", "DURATION", _LIFETIME)] = "15m",
    ack_all: Annotated[bool, option("--ack-all", None, _ACK_ALL)] = False,
) -> None:
    """Show events as they arrive, and forward them to a URL of this machine with their signatures.

    A temporary endpoint exists until Ctrl-C. On a terminal, the events are a list: the arrow keys move, Enter shows an
    event, r sends it again, and / filters.
    """
    seconds = seconds_of(timeout, "--timeout")
    if not _BOUNDS[0] <= seconds <= _BOUNDS[1]:
        raise CommandError(f"--timeout {timeout!r} must be from 1s to 5m", ExitCode.USAGE)
    life = seconds_of(lifetime, "--lifetime")
    if not max(_LIFETIMES[0], _RENEWALS * seconds) <= life <= _LIFETIMES[1]:
        raise CommandError(
            f"--lifetime {lifetime!r} must be from 10s to 24h, and at least three times --timeout", ExitCode.USAGE
        )
    receiver = LocalReceiver(forward, seconds) if forward else None
    types = [kind for text in events or ["*"] for kind in text.split(",")]
    with (
        _ending_by_signals(),
        closing(receiver) if receiver else nullcontext(),
        _temporary_endpoint(invocation, types, life) as (endpoint, heading),
    ):
        listening = Listening(invocation.screen, invocation.way, endpoint, life, receiver, ack_all=ack_all)
        with listening.listed(heading):
            listening.run(lease=f"{seconds * _AT_ONCE + 60}s", wait=f"{min(_LONGEST_WAIT, life // _RENEWALS)}s")


@contextmanager
def _ending_by_signals() -> Iterator[None]:
    """End as by Ctrl-C when the process is terminated or its terminal is closed, so that the endpoint is deleted."""
    ends = {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}
    # A signal that the parent process ignores, for example by nohup, stays ignored; SIGINT ends in every case.
    ends = {number for number in ends if signal.getsignal(number) is not signal.SIG_IGN}

    def interrupt(*_: Any) -> None:
        # A terminal that is closed sends several signals; only Ctrl-C may interrupt the deletion.
        for number in ends:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in {signal.SIGINT, *ends}:
        signal.signal(number, interrupt)
    # Ctrl-C is the normal end.
    with suppress(KeyboardInterrupt):
        yield


@contextmanager
def _keys_pressed(handle: Callable[[str], None]) -> Iterator[bool]:
    """Call a function for each key without Enter, in a thread, inside the context. Ctrl-C stays a signal.

    While no key is pressed, it is called now and then without one.

    Yields:
        Whether keys are read: only if standard input is a terminal whose mode this machine can set.
    """
    try:
        import termios
        import tty
    except ImportError:
        yield False
        return
    terminal = sys.stdin.fileno() if sys.stdin.isatty() else -1
    # The terminal would stop a process in the background that changes its mode.
    if terminal < 0 or os.tcgetpgrp(terminal) != os.getpgrp():
        yield False
        return
    before = termios.tcgetattr(terminal)
    # TCSANOW: keys that were pressed before are not lost.
    tty.setcbreak(terminal, termios.TCSANOW)
    # Ctrl-Z would leave the list on the terminal of the shell.
    mode = termios.tcgetattr(terminal)
    mode[6][termios.VSUSP] = bytes([os.fpathconf(terminal, "PC_VDISABLE")])
    termios.tcsetattr(terminal, termios.TCSANOW, mode)
    # The thread waits for a key until the process ends.
    threading.Thread(target=_read_keys, args=(terminal, handle), daemon=True).start()
    try:
        yield True
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)


def _read_keys(terminal: int, handle: Callable[[str], None]) -> None:
    with suppress(OSError):
        while True:
            if not select.select([terminal], [], [], _REDRAW_SECONDS)[0]:
                handle("")
            elif data := os.read(terminal, 64):
                for key in keys_of(data.decode(errors="ignore")):
                    handle(key)
            else:
                return


@contextmanager
def _temporary_endpoint(
    invocation: Invocation, types: list[str], lifetime: int
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Make an endpoint with pull, and delete it at the end. After a crash, the operator deletes it when it expires.

    Yields:
        Its id, and the lines that were printed about it.
    """
    way, screen = invocation.way, invocation.screen
    # The service chooses a name; by a kubeconfig it is known before the answer.
    endpoint = "" if way.kind == "api" else f"listen-{uuid4().hex[:12]}"
    description = "temporary endpoint of `hookwright listen`"
    fields = {"pull": {}, "events": types, "description": description, "expires_at": _expiry(lifetime)}
    try:
        document = way.create_endpoint(endpoint, fields)
    except KeyboardInterrupt:
        # The endpoint may exist.
        if endpoint:
            _delete(invocation, endpoint)
        raise
    endpoint, project = str(document["id"]), document["project"]
    try:
        heading = f"listening for {', '.join(types)} in project {project}; endpoint {endpoint} is temporary"
        lines = (heading, f"signing secret: {_secret(invocation, document)}")
        screen.note("\n".join(lines))
        yield endpoint, lines
    finally:
        _delete(invocation, endpoint)


def _expiry(lifetime: int) -> str:
    return rfc3339(datetime.now(UTC) + timedelta(seconds=lifetime))


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


def _secret(invocation: Invocation, document: dict[str, Any]) -> str:
    """Return the signing secret, or how to read it."""
    if document.get("secret"):
        return str(document["secret"])
    try:
        return str(invocation.way.call_endpoint("GET", document["id"], "secret")["secret"])
    except CommandError:
        return f"hookwright secret show {document['id']}{invocation.options.scope}"


class Listening:
    """The events of one endpoint until Ctrl-C; without a receiver they are only shown.

    The endpoint was made now. Its lifetime has the seconds from an extension of its expiry to the expiry; an infinite
    one is never extended.
    """

    def __init__(
        self,
        screen: Screen,
        way: "Way",
        endpoint: str,
        lifetime: float,
        receiver: LocalReceiver | None,
        *,
        ack_all: bool = False,
    ) -> None:
        self._screen, self._way, self._endpoint, self._lifetime = screen, way, endpoint, lifetime
        self._receiver, self._ack_all = receiver, ack_all
        self._extended = time.monotonic()
        self._list = EventList(())
        self._draw: Callable[[Sequence[str]], None] | None = None
        self._size = os.terminal_size((0, 0))
        self._printing = threading.Lock()
        self._sending_again = threading.Lock()

    @contextmanager
    def listed(self, heading: Sequence[str]) -> Iterator[None]:
        """Show the events as a list if people read them on a terminal with keys; its lines stay at the end."""
        with ExitStack() as stack:
            is_list = sys.stdout.isatty() and self._screen.for_people and os.environ.get("TERM") != "dumb"
            if is_list and stack.enter_context(_keys_pressed(self._pressed)):
                stack.callback(self._print_lines)
                self._list.heading, self._list.notice = heading, "no event has arrived yet"
                self._draw = stack.enter_context(self._screen.whole_terminal())
                stack.callback(self._end_drawing)
                self._pressed("")
            yield

    def _end_drawing(self) -> None:
        with self._printing:
            self._draw = None

    def _print_lines(self) -> None:
        for event in self._list.events:
            self._screen.line(event.line)

    def run(self, *, lease: str, wait: str, last_event: str = "") -> None:
        """Take messages, forward and settle them, until an exception, or for a minute until the event with an id."""
        DEADLINE.lift()
        # The requests wait by intention.
        DEADLINE.notice_seconds = None
        request = {"limit": str(_AT_ONCE), "wait": wait, "lease": lease}
        start, pause, trouble, is_new = time.monotonic(), 1.0, "", True
        while not last_event or time.monotonic() - start < _EVENT_SECONDS:
            try:
                self._extend()
                messages = self._way.call_endpoint("GET", self._endpoint, "messages", params=request)["data"]
                if trouble:
                    self._note(f"{clock_time(datetime.now(UTC))}  events arrive again")
                pause, trouble, is_new = 1.0, "", False
                for message in messages:
                    self._handle(message)
                    if last_event and last_event == webhook_id_of(message):
                        return
                    self._extend()
            except CommandError as error:
                is_starting = is_new and time.monotonic() - start < _STARTING_SECONDS
                is_unready = is_starting and error.code in {ExitCode.NOT_FOUND, ExitCode.CONFLICT}
                if error.code is not ExitCode.UNAVAILABLE and not is_unready:
                    raise
                if not is_unready and str(error) != trouble:
                    trouble = str(error)
                    self._note(f"{clock_time(datetime.now(UTC))}  no events arrive: {error}; trying again")
                time.sleep(pause if error.retry_after is None else min(error.retry_after, _LONGEST_PAUSE))
                pause = min(pause * 2, _LONGEST_PAUSE)
        message = f"event {last_event} did not reach endpoint {self._endpoint} in {_EVENT_SECONDS:.0f} s"
        raise CommandError(message, ExitCode.UNAVAILABLE, hint="hookwright deliveries")

    def _extend(self) -> None:
        """Extend the expiry if a third of the lifetime has passed; if nothing answers, the next call does."""
        now = time.monotonic()
        if now - self._extended < self._lifetime / _RENEWALS:
            return
        try:
            self._way.change_endpoint(self._endpoint, {"expires_at": _expiry(int(self._lifetime))})
        except CommandError as error:
            if error.code is not ExitCode.UNAVAILABLE:
                raise
            return
        self._extended = now

    def _handle(self, message: dict[str, Any]) -> None:
        answer = self._receiver.post(message) if self._receiver else None
        is_accepted = answer is None or answer.accepted or self._ack_all
        body: dict[str, Any] = {"ids": [message["id"]]}
        if answer and not is_accepted:
            body["reason"] = " ".join(plain(f"listen: {answer.words}").split())[:_LONGEST_REASON]
        verb = "ack" if is_accepted else "nack"
        try:
            settlement = self._way.call_endpoint("POST", self._endpoint, "messages", verb, body=body)["data"][0]
        except CommandError as error:
            # The message was forwarded, so it is shown; it comes again after its lease.
            self._show(message, answer, {"result": "unknown", "status": "pending"})
            if error.code is not ExitCode.UNAVAILABLE:
                raise
            self._note(f"{error}; the event comes again")
        else:
            self._show(message, answer, settlement)

    def _pressed(self, key: str) -> None:
        """Handle a key, in the thread that reads them; without a key, follow the size of the terminal."""
        with self._printing:
            is_typed = self._list.press(key)
            event = self._list.selected
            size, self._size = self._size, shutil.get_terminal_size()
            if key or size != self._size:
                self._redraw()
        if key not in {"r", "R"} or is_typed:
            return
        if self._receiver is None or event is None:
            self._note("there is no --forward URL" if event else "no event has arrived yet")
        elif self._sending_again.acquire(blocking=False):
            threading.Thread(target=self._send_again, args=(event.message,), daemon=True).start()

    def _send_again(self, message: Mapping[str, Any]) -> None:
        """Send an event to the receiver; its delivery is not changed. One at a time, while other keys work."""
        try:
            if self._receiver:
                self._show(message, self._receiver.post(message), None)
        finally:
            self._sending_again.release()

    def _note(self, text: str) -> None:
        with self._printing:
            if self._draw is None:
                self._screen.note(text)
            else:
                self._list.notice = plain(text)
                self._redraw()

    def _redraw(self) -> None:
        if self._draw is not None:
            self._draw(self._list.lines(self._size.lines, self._size.columns))

    def _show(
        self, message: Mapping[str, Any], answer: LocalAnswer | None, settlement: Mapping[str, Any] | None
    ) -> None:
        document = dict(message)
        if answer:
            document["forwarded"] = {
                "status": answer.status or None,
                "duration_ms": answer.milliseconds,
                "error": answer.error or None,
                "again": settlement is None,
            }
        if settlement:
            document |= {name: settlement.get(name) for name in ("result", "status", "next_attempt_at")}
        now, words = datetime.now(UTC), answer.body if answer else ""
        line, details = event_line(self._screen, document, now), "\n".join(event_details(document, words))
        with self._printing:
            self._list.events.append(ListedEvent(line, details, message))
            if self._draw is None:
                text = event_text(self._screen, document, words, now)
                self._screen.follow(document, text, name=str(document["delivery_id"]))
            else:
                self._list.notice = ""
                self._redraw()
