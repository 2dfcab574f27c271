"""Look-ups of host names for namespaces; only addresses that the guard allows are returned."""

import asyncio
import errno
import socket
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future as ThreadFuture
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Final

from hookwright_operator.delivery.http.error_messages import NoPlaceError, own_fault
from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.delivery.http.name_cache import FALLBACK, RENEWAL, NameEntry
from hookwright_operator.delivery.tasks import wait_for_event
from hookwright_runtime.bounds import LOOKUPS
from hookwright_runtime.errors import RefusedAddressError
from hookwright_runtime.places import FullError, Places
from hookwright_runtime.shelf import Shelf

Lookup = Callable[[str, int], Sequence[str]]
"""Name and port to addresses as text, blocking; raises OSError (``socket.gaierror``) if there are none."""

LONGEST_WAIT: Final = 1.0
"""Seconds that an attempt waits for a place."""
_PATIENCE: Final = 1.0
"""Seconds to wait for a look-up if an old answer could be used."""
_PER_FAMILY: Final = 2
"""Addresses of each family that one attempt tries. Each may take a descriptor until the attempt ends."""
_OPEN_AT_ONCE: Final = 4
"""Files and sockets that one look-up may have open."""
_CHECKING: Final = Lock()
"""Held during a check, so that all threads together open no more for it."""
_NAMES: Final = 8192
"""Names that are remembered."""
SOCKETS: Final = 2 * _PER_FAMILY
"""Sockets that one attempt may have at once, because it tries the next address beside one that does not answer."""


@dataclass(slots=True)
class _Pending:
    """A look-up that waits for its place or runs.

    Attributes:
        fault: the error that prevented the look-up and does not concern the name.
    """

    namespace: str
    host: str
    port: int
    entry: NameEntry
    start: asyncio.Event = field(default_factory=asyncio.Event)
    end: asyncio.Event = field(default_factory=asyncio.Event)
    fault: BaseException | None = None


class GuardedResolver:
    """Look-ups in separate threads, with bounds for each namespace; addresses that the guard refuses are dropped.

    A result is reused for some seconds. After that it is used while a look-up renews it in the background. The guard
    checks it at each use. A failure is remembered as well, longer each time.

    Args:
        guard: checks every address at each use.
        lookup: the look-up itself, called in a thread.
    """

    def __init__(self, guard: Guard, lookup: Lookup) -> None:
        self._guard = guard
        self._lookup = lookup
        self._threads = ThreadPoolExecutor(LOOKUPS.at_once, thread_name_prefix="lookup")
        # A look-up cannot be cancelled and keeps its place until the resolver's timeout, so half of the places serve
        # only namespaces that have none.
        self._places = Places(LOOKUPS)
        # By namespace and host, so that no namespace sees the entries of another one.
        self._names: Shelf[NameEntry] = Shelf(_NAMES)
        self._pending: dict[tuple[str, str], _Pending] = {}
        self._loop = asyncio.get_running_loop()

    async def wait_for_place(self, namespace: str, host: str, port: int) -> float:
        """Begin the look-up of a name if one is due; return for how many seconds it waited for a place.

        Raises:
            NoPlaceError: it has waited for a second, or too many look-ups of the namespace wait.
        """
        now = self._loop.time()
        entry = self._entry(namespace, host)
        if not entry.due(now):
            return 0.0
        pending = self._ask(namespace, host, port, entry)
        if entry.usable(now, RENEWAL):
            return 0.0
        if pending is not None and not pending.start.is_set():
            await wait_for_event(pending.start, LONGEST_WAIT)
        if (pending is None or not pending.start.is_set()) and not entry.usable(self._loop.time(), FALLBACK):
            raise NoPlaceError("namespace_lookups" if self._places.holds_all(namespace) else "lookups")
        return self._loop.time() - now

    async def resolve(self, namespace: str, host: str, port: int) -> list[str]:
        """Return addresses of a name that the guard allows, another one first each time; at most two of each family.

        Raises:
            RefusedAddressError: the guard refuses all of them; the message says why it refuses the first.
            NoPlaceError: the look-up has no place.
            OSError: the name has no address, or the look-up failed.
        """
        entry = await self._known(namespace, host, port)
        allowed, refusal = self._sift(entry.take(self._loop.time()), host)
        if not allowed:
            raise refusal or socket.gaierror(socket.EAI_NONAME, "the name has no address")
        return _two_of_each_family(allowed)

    async def close(self) -> None:
        """Begin no more look-ups; those that run end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _known(self, namespace: str, host: str, port: int) -> NameEntry:
        """Return the entry of a name; if no known result may be used, wait for the look-up that is due."""
        now = self._loop.time()
        entry = self._entry(namespace, host)
        if not entry.due(now):
            return entry
        pending = self._ask(namespace, host, port, entry)
        if entry.usable(now, RENEWAL):
            return entry
        if pending is None:
            if entry.usable(now, FALLBACK):
                return entry
            raise NoPlaceError("namespace_lookups")
        await wait_for_event(pending.end, _PATIENCE if entry.usable(now, FALLBACK) else None)
        if pending.fault is not None and not pending.entry.usable(now, FALLBACK):
            raise pending.fault
        return pending.entry

    def _entry(self, namespace: str, host: str) -> NameEntry:
        entry = self._names.find((namespace, host))
        if entry is None:
            entry = NameEntry()
            self._names.keep((namespace, host), entry, namespace)
        return entry

    def _ask(self, namespace: str, host: str, port: int, entry: NameEntry) -> _Pending | None:
        """Return the look-up of a name, running or waiting; None if too many of the namespace wait."""
        pending = self._pending.get((namespace, host))
        if pending is None:
            pending = _Pending(namespace, host, port, entry)
            try:
                self._places.enqueue(namespace, partial(self._begin, pending))
            except FullError:
                return None
            self._pending[namespace, host] = pending
        return pending

    def _begin(self, pending: _Pending) -> None:
        pending.start.set()
        callback = partial(self._ended, pending, self._loop.time())
        try:
            running = self._threads.submit(self._lookup, pending.host, pending.port)
        except RuntimeError:
            # No further thread can be started, or the resolver is closed. The next look-up begins in its own call.
            fault = OSError(errno.ENOMEM, "no thread for a name look-up")
            self._loop.call_soon(self._finish, pending, fault)
        else:
            running.add_done_callback(partial(self._ended_in_thread, callback))

    def _ended_in_thread(
        self, callback: Callable[[ThreadFuture[Sequence[str]]], None], lookup: ThreadFuture[Sequence[str]]
    ) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, lookup)

    def _ended(self, pending: _Pending, began: float, lookup: ThreadFuture[Sequence[str]]) -> None:
        now = self._loop.time()
        error = None if lookup.cancelled() else lookup.exception()
        fault: BaseException | None = None
        if error is None and not lookup.cancelled() and (addresses := list(lookup.result())):
            pending.entry.found(addresses, now, now - began)
        elif error is None:
            pending.entry.failed(socket.gaierror(socket.EAI_NONAME, "the name has no address"), now, now - began)
        elif isinstance(error, OSError) and not own_fault(error):
            pending.entry.failed(error, now, now - began)
        else:
            fault = error
        self._finish(pending, fault)

    def _finish(self, pending: _Pending, fault: BaseException | None) -> None:
        pending.fault = fault
        del self._pending[pending.namespace, pending.host]
        pending.end.set()
        self._places.end(pending.namespace)

    def _sift(self, addresses: Iterable[str], host: str) -> tuple[list[str], RefusedAddressError | None]:
        allowed: list[str] = []
        refusal: RefusedAddressError | None = None
        for address in addresses:
            try:
                self._guard.check(address, host)
            except RefusedAddressError as error:
                refusal = refusal or error
            else:
                allowed.append(address)
        return allowed, refusal


def _two_of_each_family(addresses: Sequence[str]) -> list[str]:
    room = {True: _PER_FAMILY, False: _PER_FAMILY}
    selection = []
    for address in addresses:
        family = ":" in address
        if room[family]:
            room[family] -= 1
            selection.append(address)
    return selection


def system_lookup(host: str, port: int) -> list[str]:
    """Look up a name with the system's configuration (``getaddrinfo``); blocks.

    The C library accepts texts such as ``0x7f.1`` as addresses, so the guard checks the resulting address.

    Raises:
        OSError: the name has no address, or the look-up failed; ``EMFILE`` if this process lacks descriptors.
    """
    # Without a descriptor the C library cannot read its files, and reports that the name does not exist.
    _check_descriptors()
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except OSError:
        _check_descriptors()
        raise
    except ValueError as error:
        # Raised by the idna codec, for example if a label has more than 63 characters.
        raise socket.gaierror(socket.EAI_NONAME, "not a valid host name") from error
    return [_numeric(sockaddr) for *_, sockaddr in answers]


def _check_descriptors() -> None:
    """Return if a look-up can open its files and sockets.

    One free descriptor proves nothing, because another thread may have closed it a moment ago.

    Raises:
        OSError: the error of this process, such as ``EMFILE``.
    """
    with _CHECKING, ExitStack() as stack:
        for _ in range(_OPEN_AT_ONCE):
            stack.enter_context(socket.socket())


def _numeric(sockaddr: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]) -> str:
    host, scope = str(sockaddr[0]), sockaddr[3] if len(sockaddr) == 4 else 0
    return f"{host}%{scope}" if scope and "%" not in host else host
