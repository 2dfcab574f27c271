"""Which of several processes writes to the cluster: at most one, by a Lease that the API server keeps.

It is client-go's election: whoever holds the Lease renews it, and whoever sees it unchanged for its whole duration
takes it over, with the version that was seen as a precondition. No process reads another one's clock. A holder counts
its term from before the request that renewed it, and ends it earlier than others begin to doubt it; every write asks
the term when its first byte is about to go.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, Self

import structlog

from hookwright_operator.errors import KubeError
from hookwright_operator.kube import Kube, Object

log = structlog.get_logger(__name__)

LEASE: Final = "hookwright-reconciler"
DURATION: Final = 12.0
"""Seconds for which others leave an unchanged Lease alone; with `LOOK_EVERY` it is how long a dead leader is missed."""
RENEW_DEADLINE: Final = 8.0
"""Seconds after which a holder that could not renew stops; what it sent by then has the rest of `DURATION` to end."""
RENEW_EVERY: Final = 2.0
LOOK_EVERY: Final = 1.0
_ROUND_SECONDS: Final = 3.0
_CONFLICT: Final = 409
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds() -> float:
    """Return seconds that pass evenly, also while the machine sleeps where the system counts those."""
    return time.clock_gettime(_CLOCK)


class Term:
    """For how long this process, and no other, may write to the cluster; a `kube.Fence`.

    Attributes:
        number: how many terms there have been, this one included.
    """

    def __init__(self, *, clock: Callable[[], float] = seconds) -> None:
        """Begin without a term; the clock tells seconds."""
        self._clock = clock
        self._until = self._others_from = -math.inf
        self._writes = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.number = 0

    @classmethod
    def without_end(cls) -> Self:
        """Return the term of a process beside which there can be no other."""
        term = cls()
        term.renew(math.inf)
        return term

    @property
    def holds(self) -> bool:
        """Whether this process leads."""
        return self._clock() < self._until

    @property
    def left(self) -> float:
        """Seconds until another process may lead."""
        return max(0.0, self._others_from - self._clock())

    @property
    @contextmanager
    def writing(self) -> Iterator[None]:
        """Is entered for as long as a write is under way."""
        self._writes += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._writes -= 1
            if not self._writes:
                self._quiet.set()

    def renew(self, since: float) -> None:
        """Lead on, or begin to, by a request that was sent at some time."""
        if not self.holds:
            self.number += 1
        self._until, self._others_from = since + RENEW_DEADLINE, since + DURATION

    def end(self) -> None:
        """Begin no write any more."""
        self._until = -math.inf

    async def quiet(self) -> None:
        """Return when no write is under way."""
        await self._quiet.wait()


class Election:
    """Stands for the Lease of an installation, again and again.

    Args:
        term: begins and goes on with what is won here.
        identity: which no other process has, ever.
        name: which no two living processes share: a holder whose identity is this and ``/…`` is dead. May be empty.
    """

    def __init__(self, kube: Kube, term: Term, *, namespace: str, identity: str, name: str = "") -> None:
        self._kube, self._term = kube, term
        self._identity, self._name = identity, name
        self._namespace = namespace
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._seen_version = ""
        self._seen_at = -math.inf
        self._fault = ""

    async def run(self) -> None:
        """Stand until cancelled."""
        while True:
            pause = LOOK_EVERY
            try:
                async with asyncio.timeout(_ROUND_SECONDS):
                    pause = await self.stand()
                self._fault = ""
            except KubeError as error:
                if error.status != _CONFLICT:
                    self._complain(str(error))
            except TimeoutError:
                self._complain("the API server does not answer in time")
            await asyncio.sleep(pause)

    async def stand(self) -> float:
        """Renew the Lease, or take it where nobody living holds it; return after how many seconds to do so again.

        Raises:
            KubeError: it could not be read or written, or somebody else was first.
        """
        since = seconds()
        lease = await self._read()
        wait = self._wait(lease)
        if wait > 0:
            self._term.end()
            return min(wait, LOOK_EVERY)
        if lease is None:
            lease = await self._kube.post(self._leases, self._new())
        else:
            lease = await self._kube.merge(f"{self._leases}/{LEASE}", self._renewed(lease))
        self._see(lease)
        self._term.renew(since)
        return RENEW_EVERY

    async def resign(self) -> None:
        """Let what is being written end, write nothing any more, and let another process lead at once.

        Raises:
            KubeError: the Lease could not be given back; others take it when it expires.
            TimeoutError: the same, and there is nobody to say why.
        """
        self._term.end()
        if not self._seen_version:
            return
        async with asyncio.timeout(_ROUND_SECONDS):
            await self._term.quiet()
            lease = await self._read()
            if lease is not None and lease["spec"].get("holderIdentity") == self._identity:
                released = {"holderIdentity": None, "leaseDurationSeconds": 1, "renewTime": _now()}
                await self._kube.merge(f"{self._leases}/{LEASE}", _preconditioned(lease, released))

    async def _read(self) -> Object | None:
        try:
            return await self._kube.get(f"{self._leases}/{LEASE}")
        except KubeError as error:
            if error.status != 404:
                raise
            return None

    def _see(self, lease: Object) -> None:
        version = lease["metadata"]["resourceVersion"]
        if version != self._seen_version:
            self._seen_version, self._seen_at = version, seconds()

    def _wait(self, lease: Object | None) -> float:
        """Return for how many seconds another one may lead, if the Lease stays as it is."""
        if lease is None:
            # Somebody deleted it, and its holder cannot know yet.
            return 0.0 if self._term.holds else self._seen_at + DURATION - seconds()
        self._see(lease)
        spec = lease["spec"]
        holder = str(spec.get("holderIdentity") or "")
        dead = self._name and holder.rpartition("/")[0] == self._name
        if not holder or holder == self._identity or dead:
            return 0.0
        return self._seen_at + float(spec.get("leaseDurationSeconds") or DURATION) - seconds()

    def _new(self) -> Object:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE, "namespace": self._namespace},
            "spec": self._held() | {"acquireTime": _now(), "leaseTransitions": 0},
        }

    def _renewed(self, lease: Object) -> Object:
        spec = self._held()
        if lease["spec"].get("holderIdentity") != self._identity:
            spec |= {"acquireTime": _now(), "leaseTransitions": int(lease["spec"].get("leaseTransitions") or 0) + 1}
        return _preconditioned(lease, spec)

    def _held(self) -> dict[str, Any]:
        return {"holderIdentity": self._identity, "leaseDurationSeconds": int(DURATION), "renewTime": _now()}

    def _complain(self, fault: str) -> None:
        # An API server that is away would be told of every second.
        if fault != self._fault:
            log.warning("no election right now", lease=LEASE, error=fault)
            self._fault = fault


def _preconditioned(lease: Object, spec: dict[str, Any]) -> Object:
    return {"metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]}, "spec": spec}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
