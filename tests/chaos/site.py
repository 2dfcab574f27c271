"""An operator under load: a producer that records accepted events, and receivers that record requests."""

import asyncio
import json
import time
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Self

import httpx
from support.polling import PATIENCE, until

from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE, OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.receiver import Received, Receiver, verdict

TYPES = ("delivered", "bounced", "opened", "clicked")
"""Endpoint N subscribes to the first N + 1 types, so an event goes to one endpoint or more, up to all of them."""
MAX_IN_FLIGHT = 8
"""The default of an endpoint."""
UNSETTLED = 2 * MAX_IN_FLIGHT
"""Attempts of one endpoint without a stored result: those in flight, and as many whose result is not yet written."""


@dataclass(slots=True)
class Ledger:
    """The responses that a producer got.

    Attributes:
        accepted: types of the events that were answered 202, by their ids.
        refusals: counts of other statuses and of transport errors.
    """

    accepted: dict[str, str] = field(default_factory=dict)
    refusals: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Crowd:
    """A receiver's response: 200 after a delay; it also records the highest number of concurrent requests."""

    seconds: float
    now: int = 0
    peak: int = 0

    async def __call__(self, _: Received) -> int:
        """Wait for the delay."""
        self.now += 1
        self.peak = max(self.peak, self.now)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.now -= 1
        return 200


@dataclass(slots=True)
class Site:
    """A project with endpoints, the operators that serve it, and their receivers.

    Attributes:
        operator: the only replica, or the first of several.
        others: the other replicas; producers use all of them in turn.
        patience: for how many seconds producers wait for a response.
    """

    cluster: Cluster
    namespace: str
    operator: OperatorProcess
    others: list[OperatorProcess] = field(default_factory=list)
    receivers: dict[str, Receiver] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    patience: float = 30.0
    _numbers: "count[int]" = field(default_factory=count)
    _turns: "count[int]" = field(default_factory=count)
    _token: str = field(default="", repr=False)

    @classmethod
    def of(cls, cluster: Cluster, namespace: str, folder: Path, **settings: str) -> Self:
        """Declare a project for an operator that serves this namespace; nothing is started."""
        defaults = {"HOOKWRIGHT_RETRY_SCHEDULE": "300ms,500ms,1s,1s,1s", "HOOKWRIGHT_WATCH_NAMESPACES": namespace}
        site = cls(cluster, namespace, OperatorProcess(cluster, folder, {**defaults, **settings}))
        site.apply("Project", "billing", {"displayName": "Billing"})
        site._token = cluster.objects.token("hookwright-producer", SYSTEM_NAMESPACE, audience="hookwright")
        return site

    @property
    def replicas(self) -> list[OperatorProcess]:
        """Return every operator."""
        return [self.operator, *self.others]

    def replica(self, name: str, **settings: str) -> OperatorProcess:
        """Add an operator with the settings of the first one and its own; it is not started."""
        folder = self.operator.folder.with_name(name)
        self.others.append(OperatorProcess(self.cluster, folder, {**self.operator.settings, **settings}))
        return self.others[-1]

    def apply(self, kind: str, name: str, spec: Mapping[str, object]) -> None:
        """Create a resource."""
        self.cluster.objects.create(kind, name, self.namespace, spec=spec)

    async def endpoint(self, name: str, *types: str, **spec: object) -> Receiver:
        """Create an endpoint and a receiver for it."""
        receiver = self.receivers[name] = Receiver()
        await receiver.start()
        self.apply(
            "WebhookEndpoint",
            name,
            {"projectRef": {"name": "billing"}, "url": receiver.url, "events": list(types), **spec},
        )
        return receiver

    async def endpoints(self) -> None:
        """Create one endpoint for every type; each subscribes to one type more than the previous one."""
        for number in range(len(TYPES)):
            await self.endpoint(f"endpoint-{number}", *TYPES[: number + 1])

    async def start(self) -> None:
        """Start every operator, and return when all endpoints are ready."""
        await asyncio.gather(*[asyncio.to_thread(replica.start) for replica in self.replicas])
        await until(self._all_ready)

    def _all_ready(self) -> bool:
        endpoints = self.cluster.objects.list("WebhookEndpoint", self.namespace)
        conditions = [endpoint.get("status", {}).get("conditions", ()) for endpoint in endpoints]
        return all(
            any(item["type"] == "Ready" and item["status"] == "True" for item in condition) for condition in conditions
        )

    async def restart(self) -> None:
        """Start the operator again."""
        await asyncio.to_thread(self.operator.start)

    async def close(self) -> None:
        """Stop the operators and the receivers."""
        for replica in self.replicas:
            if replica.process is not None:
                await asyncio.to_thread(replica.kill)
        for receiver in self.receivers.values():
            await receiver.stop()

    # ---- the producer

    @asynccontextmanager
    async def load(self, *, producers: int = 4, rate: float = 200.0) -> AsyncIterator[None]:
        """Post about ``rate`` events a second while the block runs; at its end wait until all of them were accepted."""
        ending = asyncio.Event()
        async with httpx.AsyncClient(trust_env=False, timeout=self.patience) as client:
            pause = producers / rate
            tasks = [asyncio.create_task(self._produce(client, ending, pause)) for _ in range(producers)]
            try:
                yield
            finally:
                ending.set()
                await asyncio.gather(*tasks)

    async def post(self, type_: str = "delivered", *, within: float = 90.0) -> str:
        """Post one event until it is accepted; return its id."""
        async with httpx.AsyncClient(trust_env=False, timeout=self.patience) as client:
            event_id = f"event-{next(self._numbers)}"
            await self._post_until_accepted(client, event_id, type_, within)
            return event_id

    async def _produce(self, client: httpx.AsyncClient, ending: asyncio.Event, pause: float) -> None:
        while not ending.is_set():
            number = next(self._numbers)
            await self._post_until_accepted(client, f"event-{number}", TYPES[number % len(TYPES)], 90.0)
            await asyncio.sleep(pause)

    async def _post_until_accepted(self, client: httpx.AsyncClient, event_id: str, type_: str, within: float) -> None:
        deadline = time.monotonic() + within
        while not await self._post(client, event_id, type_):
            assert time.monotonic() < deadline, f"{event_id} was not accepted: {self.ledger.refusals}"
            await asyncio.sleep(0.1)

    async def _post(self, client: httpx.AsyncClient, event_id: str, type_: str) -> bool:
        intake = self.replicas[next(self._turns) % len(self.replicas)].intake_url
        url = f"{intake}/v1alpha1/namespaces/{self.namespace}/projects/billing/events"
        event = {"id": event_id, "type": type_, "messageId": event_id}
        try:
            answer = await client.post(url, json=event, headers={"Authorization": f"Bearer {self._token}"})
        except httpx.TransportError as error:
            self.ledger.refusals[type(error).__name__] += 1
            return False
        if answer.status_code == 202:
            self.ledger.accepted[event_id] = type_
            return True
        assert answer.status_code == 503, answer.text
        self.ledger.refusals["503"] += 1
        return False

    async def more_accepted(self, events: int, *, within: float = PATIENCE) -> None:
        """Wait until this many more events were answered 202."""
        had = len(self.ledger.accepted)
        await until(lambda: len(self.ledger.accepted) >= had + events, within=within)

    async def refused(self, times: int) -> None:
        """Wait until this many more requests were answered 503."""
        had = self.ledger.refusals["503"]
        await until(lambda: self.ledger.refusals["503"] >= had + times)

    # ---- the checker

    def expected(self) -> dict[str, set[str]]:
        """Return the ids of the events that each endpoint must get."""
        return {
            name: {event for event, type_ in self.ledger.accepted.items() if type_ in TYPES[: number + 1]}
            for number, name in enumerate(sorted(self.receivers))
        }

    async def all_arrived(self, *, within: float = PATIENCE) -> None:
        """Wait until every accepted event has reached every endpoint that subscribes to it."""
        deadline = time.monotonic() + within
        missing = self._missing()
        while missing:
            assert time.monotonic() < deadline, f"accepted and not delivered: {missing}; {self.tails()}"
            await asyncio.sleep(0.05)
            missing = self._missing()

    async def arrived_once(self, *, repeated: int = 0) -> None:
        """Check that all accepted events arrive without repetition, and that producers got only 202 and 503.

        Args:
            repeated: how many requests an endpoint may have got beyond one for each event.
        """
        await self.all_arrived()
        await asyncio.to_thread(self.check_requests)
        assert set(self.ledger.refusals) <= {"503"}, self.ledger.refusals
        assert max(self.duplicates().values()) <= repeated, self.duplicates()

    def tails(self) -> str:
        """Return the ends of the operators' logs."""
        return "\n".join(f"{replica.folder.name}: {replica.running.tail()}" for replica in self.replicas)

    def silence(self) -> str:
        """Return the longest time without a request to an endpoint, between its first request and its last."""
        times = [[request.at for request in receiver.received] for receiver in self.receivers.values()]
        longest = max(later - sooner for each in times for sooner, later in pairwise(each))
        return f"an endpoint got nothing for {longest:.1f} s"

    def _missing(self) -> dict[str, list[str]]:
        losses = {name: ids - arrived(self.receivers[name]) for name, ids in self.expected().items()}
        return {name: sorted(ids)[:10] for name, ids in losses.items() if ids}

    def duplicates(self) -> dict[str, int]:
        """Return how many requests each endpoint got beyond one for each event."""
        return {name: len(receiver.received) - len(arrived(receiver)) for name, receiver in self.receivers.items()}

    def check_requests(self) -> None:
        """Check that every request is signed and of an accepted event, and that an event has one webhook-id."""
        ids: dict[str, str] = {}
        expected = self.expected()
        for name, receiver in self.receivers.items():
            secret = self.secret(name)
            for request in receiver.received:
                assert verdict(request.headers, request.body, [secret]) == ""
                event = event_of(request)
                assert event in expected[name]
                assert ids.setdefault(event, request.id) == request.id
        assert len(set(ids.values())) == len(ids)

    def secret(self, endpoint: str) -> str:
        """Return the signing secret of an endpoint."""
        secret = self.cluster.objects.get("Secret", f"{endpoint}-signing", self.namespace)
        assert secret is not None
        return b64decode(secret["data"]["secret"]).decode()


def event_of(received: Received) -> str:
    """Return the producer's id of the event in a request."""
    return str(json.loads(received.body)["messageId"])


def arrived(receiver: Receiver) -> set[str]:
    """Return the ids of the received events."""
    return {event_of(request) for request in receiver.received}
