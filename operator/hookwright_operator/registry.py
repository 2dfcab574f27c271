"""Pure: what the operator knows of projects and endpoints right now, for intake and delivery.

Reconciling feeds it, intake asks it who subscribes, delivery asks it how to send. It holds
frozen snapshots, so a reader never sees a half-made change. One event loop owns it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from hookwright_crds.resources import DeliveryCounts


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One WebhookEndpoint as delivery needs it.

    Attributes:
        timeout: seconds for one whole attempt.
        per_minute: attempts a minute at most, evenly spread; no limit where None.
        secrets: signing secrets, the newest first, older ones only during a rotation's overlap;
            empty until the operator has made the first, and then nothing is sent yet.
        blocked: why nothing may be sent although it is not suspended (say, its url is plain http
            where that is not allowed); empty where all is well.
    """

    uid: str
    namespace: str
    name: str
    project: str
    url: str
    events: frozenset[str]
    suspend: bool = False
    timeout: float = 15.0
    max_in_flight: int = 8
    headers: tuple[tuple[str, str], ...] = ()
    per_minute: int | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)
    blocked: str = ""

    def __hash__(self) -> int:
        """By the uid alone: to hash all that it holds would touch a dozen objects an attempt."""
        return hash(self.uid)

    @property
    def sendable(self) -> bool:
        """Whether deliveries may go out now."""
        return bool(self.secrets) and not self.suspend and not self.blocked


@dataclass(frozen=True, slots=True)
class Health:
    """What deliveries have shown of an endpoint, as it is to be published.

    Attributes:
        error: of the last attempt, in plain words; empty after a 2xx answer, and where no attempt was
            made since the last time this was published.
        failures: how many deliveries were given up since the last time this was published.
        limited_to: how many attempts at once the endpoint gets while its attempts time out, None otherwise.
    """

    counts: DeliveryCounts
    error: str = ""
    failures: int = 0
    limited_to: int | None = None


class Listener(Protocol):
    """Whoever must act when an endpoint appears, changes or goes."""

    def endpoint_changed(self, endpoint: Endpoint) -> None:
        """The endpoint is new, or differs from what was known."""

    def endpoint_gone(self, uid: str) -> None:
        """The endpoint takes no deliveries any more."""


@dataclass(slots=True)
class Registry:
    """Projects and endpoints by what one looks them up with."""

    _projects: set[tuple[str, str]] = field(default_factory=set)
    _endpoints: dict[str, Endpoint] = field(default_factory=dict)
    _uids: dict[tuple[str, str], str] = field(default_factory=dict)
    _by_project: dict[tuple[str, str], dict[str, Endpoint]] = field(default_factory=dict)
    _listeners: list[Listener] = field(default_factory=list)

    def listen(self, listener: Listener) -> None:
        """Tell a listener of every change from now on."""
        self._listeners.append(listener)

    def put_project(self, namespace: str, name: str) -> None:
        """Let a project accept events."""
        self._projects.add((namespace, name))

    def remove_project(self, namespace: str, name: str) -> None:
        """Let a project accept no more events."""
        self._projects.discard((namespace, name))

    def has_project(self, namespace: str, name: str) -> bool:
        """Whether the project exists."""
        return (namespace, name) in self._projects

    def put(self, endpoint: Endpoint) -> None:
        """Make an endpoint known, or replace what was known of it."""
        if self._endpoints.get(endpoint.uid) == endpoint:
            return
        self._forget(endpoint.uid)
        self._endpoints[endpoint.uid] = endpoint
        self._uids[endpoint.namespace, endpoint.name] = endpoint.uid
        self._by_project.setdefault((endpoint.namespace, endpoint.project), {})[endpoint.uid] = endpoint
        self._tell(lambda listener: listener.endpoint_changed(endpoint))

    def remove(self, uid: str) -> None:
        """Forget an endpoint."""
        if self._forget(uid):
            self._tell(lambda listener: listener.endpoint_gone(uid))

    def get(self, uid: str) -> Endpoint | None:
        """Return an endpoint by uid."""
        return self._endpoints.get(uid)

    def find(self, namespace: str, name: str) -> Endpoint | None:
        """Return an endpoint by the name it has in Kubernetes."""
        uid = self._uids.get((namespace, name))
        return self._endpoints.get(uid) if uid else None

    def subscribers(self, namespace: str, project: str, event_type: str) -> Iterator[Endpoint]:
        """Yield the project's endpoints that subscribe to an event type, suspended ones too."""
        for endpoint in self._by_project.get((namespace, project), {}).values():
            if event_type in endpoint.events:
                yield endpoint

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(tuple(self._endpoints.values()))

    def __len__(self) -> int:
        return len(self._endpoints)

    def _forget(self, uid: str) -> bool:
        old = self._endpoints.pop(uid, None)
        if old is None:
            return False
        if self._uids.get((old.namespace, old.name)) == uid:
            del self._uids[old.namespace, old.name]
        peers = self._by_project[old.namespace, old.project]
        del peers[uid]
        if not peers:
            del self._by_project[old.namespace, old.project]
        return True

    def _tell(self, call: Callable[[Listener], None]) -> None:
        for listener in self._listeners:
            call(listener)
