"""Leader election: at most one replica writes to the cluster, by a Lease in the API server.

It is client-go's election. The holder of the Lease renews it. A replica that sees the Lease unchanged for its whole
duration takes it over, with the seen version as a precondition. No replica reads another one's clock. A holder counts
its leadership from before the request that renewed it. It ends the leadership before others may take the Lease. Every
write checks the leadership immediately before its first byte is sent.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self

import structlog

from hookwright_runtime.errors import KubeError
from hookwright_runtime.kubernetes import KubernetesClient, Object

log = structlog.get_logger(__name__)

LEASE: Final = "hookwright-reconciler"
_CONFLICT: Final = 409
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds() -> float:
    """Return monotonic seconds, which also count while the machine sleeps if the system supports it."""
    return time.clock_gettime(_CLOCK)


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """The times of an election, in seconds. All are shares of the Lease's duration.

    Attributes:
        duration: how long others do not take an unchanged Lease. With ``look_every`` it limits the time without a
            leader.
    """

    duration: float = 12.0

    @property
    def renew_deadline(self) -> float:
        """Time after which a holder that could not renew stops writing; the rest is for requests that were sent."""
        return self.duration * 2 / 3

    @property
    def round(self) -> float:
        """Longest time of one round of the election."""
        return self.duration / 4

    @property
    def renew_every(self) -> float:
        """Time between two renewals."""
        return self.duration / 6

    @property
    def look_every(self) -> float:
        """Time between two reads of a Lease that another replica holds."""
        return self.duration / 12


class Leadership:
    """The leadership of this replica: the time for which it alone may write to the cluster; a `kubernetes.Fence`.

    Attributes:
        times: the times of its election.
        number: how many times this replica became leader, the present time included.
    """

    def __init__(self, times: LeaseTimes | None = None, *, clock: Callable[[], float] = seconds) -> None:
        """Begin without leadership; the clock returns seconds."""
        self.times = times or LeaseTimes()
        self._clock = clock
        self._until = self._others_from = -math.inf
        self._writes = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.number = 0

    @classmethod
    def without_end(cls) -> Self:
        """Return a leadership without end; only a replica without others may use it."""
        leadership = cls()
        leadership.renew(math.inf)
        return leadership

    @property
    def holds(self) -> bool:
        """Whether this replica leads."""
        return self._clock() < self._until

    @property
    def left(self) -> float:
        """Seconds until another replica may lead."""
        return max(0.0, self._others_from - self._clock())

    @property
    @contextmanager
    def writing(self) -> Iterator[None]:
        """Count a write as in progress inside the context."""
        self._writes += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._writes -= 1
            if not self._writes:
                self._quiet.set()

    def renew(self, since: float) -> None:
        """Begin or extend the leadership, counted from the time at which the request was sent."""
        if not self.holds:
            self.number += 1
        self._until, self._others_from = since + self.times.renew_deadline, since + self.times.duration

    def end(self) -> None:
        """Allow no further write."""
        self._until = -math.inf

    async def quiet(self) -> None:
        """Return when no write is in progress."""
        await self._quiet.wait()


class Election:
    """The election of one replica for the Lease of an installation.

    Args:
        leadership: the leadership that this election begins and extends.
        identity: identity of this replica, unique for all time.
        name: name of this replica, unique among living replicas: a holder whose identity is this and ``/…`` is dead.
            May be empty.
    """

    def __init__(
        self, kube: KubernetesClient, leadership: Leadership, *, namespace: str, identity: str, name: str = ""
    ) -> None:
        self._kube, self._leadership, self._times = kube, leadership, leadership.times
        self._identity, self._name = identity, name
        self._namespace = namespace
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._seen_version = ""
        self._seen_at = -math.inf
        self._fault = ""

    async def run(self) -> None:
        """Take part in the election until cancelled."""
        while True:
            pause = self._times.look_every
            try:
                async with asyncio.timeout(self._times.round):
                    pause = await self.acquire_or_renew()
                self._fault = ""
            except KubeError as error:
                if error.status != _CONFLICT:
                    self._log_fault(str(error))
            except TimeoutError:
                self._log_fault("the API server does not answer in time")
            await asyncio.sleep(pause)

    async def acquire_or_renew(self) -> float:
        """Acquire the Lease if it has no living holder, or renew it; return the seconds until the next call.

        Raises:
            KubeError: the Lease could not be read or written, or another replica was first.
        """
        since = seconds()
        lease = await self._read()
        wait = self._wait(lease)
        if wait > 0:
            self._leadership.end()
            return min(wait, self._times.look_every)
        if lease is None:
            lease = await self._kube.post(self._leases, self._new())
        else:
            lease = await self._kube.merge(f"{self._leases}/{LEASE}", self._renewed(lease))
        self._see(lease)
        self._leadership.renew(since)
        return self._times.renew_every

    async def release(self) -> None:
        """Wait for writes in progress, stop writing, and release the Lease at once.

        Raises:
            KubeError: the Lease could not be released; other replicas acquire it when it expires.
            TimeoutError: the API server did not answer; the same holds.
        """
        self._leadership.end()
        if not self._seen_version:
            return
        async with asyncio.timeout(self._times.round):
            await self._leadership.quiet()
            lease = await self._read()
            if lease is not None and lease["spec"].get("holderIdentity") == self._identity:
                spec = {"holderIdentity": None, "leaseDurationSeconds": 1, "renewTime": _now()}
                await self._kube.merge(f"{self._leases}/{LEASE}", _preconditioned(lease, spec))

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
        """Return for how many seconds this replica must wait until it may lead, if the Lease stays unchanged."""
        if lease is None:
            # The Lease was deleted, and its holder cannot know that yet.
            return 0.0 if self._leadership.holds else self._seen_at + self._times.duration - seconds()
        self._see(lease)
        spec = lease["spec"]
        holder = str(spec.get("holderIdentity") or "")
        dead = self._name and holder.rpartition("/")[0] == self._name
        if not holder or holder == self._identity or dead:
            return 0.0
        return self._seen_at + float(spec.get("leaseDurationSeconds") or self._times.duration) - seconds()

    def _new(self) -> Object:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE, "namespace": self._namespace},
            "spec": self._spec() | {"acquireTime": _now(), "leaseTransitions": 0},
        }

    def _renewed(self, lease: Object) -> Object:
        spec = self._spec()
        if lease["spec"].get("holderIdentity") != self._identity:
            spec |= {"acquireTime": _now(), "leaseTransitions": int(lease["spec"].get("leaseTransitions") or 0) + 1}
        return _preconditioned(lease, spec)

    def _spec(self) -> dict[str, Any]:
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._times.duration),
            "renewTime": _now(),
        }

    def _log_fault(self, fault: str) -> None:
        # Without this check, every try would log the same error while the API server is unavailable.
        if fault != self._fault:
            log.warning("leader election failed, retrying", lease=LEASE, error=fault)
            self._fault = fault


def _preconditioned(lease: Object, spec: dict[str, Any]) -> Object:
    return {"metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]}, "spec": spec}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
