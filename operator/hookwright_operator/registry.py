"""Pure: the projects, event types and endpoints that the operator knows, for intake and delivery.

Reconciling writes it, the intake asks it for subscribers, delivery asks it how to send. It holds frozen snapshots, so a
reader never sees a partial change. One event loop owns it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, NamedTuple, Protocol, Self

from hookwright_crds.base import parse_duration
from hookwright_crds.conditions import SUSPENDED_AFTER_FAILURES
from hookwright_crds.endpoint_fields import ExtraSignature, Retry
from hookwright_crds.events import EVERY_TYPE, expanded, is_own_type
from hookwright_crds.resources import DeliveryCounts, WebhookEndpoint

EXPIRED: Final = "Expired"
"""The reason for which nothing is sent to an endpoint whose time is over."""


class SecretValue(NamedTuple):
    """A header from a Secret; no log, status or answer shows the value."""

    name: str
    prefix: str
    value: str


class OAuth2Client(NamedTuple):
    """The client of a token server; no log, status or answer shows the secret.

    Attributes:
        form: the parameters of a token request, without those of the client.
    """

    token_url: str
    client_id: str
    secret: str
    form: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TlsIdentity:
    """What an endpoint's connections trust and present; equal digests mean equal connections.

    Attributes:
        digest: of all the other texts; no page, log or metric has it.
        authorities: the trusted certificates in PEM; empty: those of the system.
        pair: the client certificate with its chain and its key, in PEM; empty: none.
        ends_at: when the client certificate ends; None without one.
    """

    digest: str = field(repr=False)
    authorities: str = field(default="", repr=False, compare=False)
    pair: str = field(default="", repr=False, compare=False)
    ends_at: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """The settings of a Project that intake and delivery need.

    Attributes:
        omits_payloads: whether its delivery log has no bodies of events and of receivers' answers.
        keeps_missed: whether events without a subscriber are stored.
        uid: of the Project; its statistics have this name.
        created_ms: when the Project was created, in milliseconds since the epoch. Earlier events belong to another
            Project that had the same name.
    """

    omits_payloads: bool = False
    keeps_missed: bool = False
    uid: str = ""
    created_ms: int = 0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One WebhookEndpoint as delivery needs it.

    Attributes:
        url: of the receiver; empty if consumers take the messages.
        pull_lease: how long a consumer has a message, in seconds, if it requests no other time; None: the endpoint has
            a URL.
        timeout: seconds for one whole attempt.
        format: ``json``, or ``cloudevents`` for CloudEvents in binary mode.
        per_minute: attempts a minute at most, evenly spread; None: no limit.
        max_attempts: of one delivery; None: as many as the retry schedule has.
        retry: what its spec says about retries, None if it has nothing of it.
        extra_signature: one more signature header, None if its spec has none.
        secret_headers: headers whose values are in Secrets of the tenant; none while one of them is missing or refused.
        oauth2: gets the access token of each delivery; None while its secret is missing or refused.
        tls: None: connections trust the system's authorities, and present no certificate.
        secrets: signing secrets, the newest first, older ones only during a rotation's overlap;
            empty until the operator has created the first one; until then no delivery is sent.
        newest_signs: whether the newest secret makes signatures with one value, as for a Secret that the tenant makes;
            otherwise the oldest one makes them.
        rotation: the value of ``spec.signing.rotation`` for which the newest secret was made.
        previous_until: when the last overlap of a replaced secret ends, None without an overlap.
        omits_responses: whether the bodies of answers are not stored; the registry sets it by the project's settings.
        block_reason: why no delivery may be sent although the endpoint is not suspended (for example, its url is plain
            http and that is not allowed); empty: not blocked.
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
    max_attempts: int | None = None
    retry: Retry | None = None
    extra_signature: ExtraSignature | None = None
    secret_headers: tuple[SecretValue, ...] = field(default=(), repr=False)
    oauth2: OAuth2Client | None = field(default=None, repr=False)
    tls: TlsIdentity | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)
    block_reason: str = ""
    format: str = "json"
    rotation: int = 0
    previous_until: datetime | None = None
    omits_responses: bool = False
    pull_lease: float | None = None
    newest_signs: bool = False

    @classmethod
    def of(
        cls,
        resource: WebhookEndpoint,
        *,
        max_timeout: float,
        secrets: tuple[str, ...],
        secret_headers: tuple[SecretValue, ...],
        oauth2: OAuth2Client | None,
        tls: TlsIdentity | None,
        block_reason: str,
        rotation: int,
        previous_until: datetime | None,
    ) -> Self:
        """Return the snapshot of a WebhookEndpoint; ``max_timeout`` is the installation's, in seconds."""
        spec, meta = resource.spec, resource.metadata
        return cls(
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
            project=spec.project_ref.name,
            url=spec.url or "",
            events=expanded(spec.events) if block_reason != EXPIRED else frozenset(),
            suspend=spec.suspend,
            timeout=min(parse_duration(spec.timeout).total_seconds(), max_timeout),
            max_in_flight=spec.max_in_flight,
            headers=tuple(spec.headers.items()),
            format=spec.format,
            per_minute=spec.rate_limit.per_minute if spec.rate_limit else None,
            max_attempts=spec.max_attempts,
            retry=spec.retry,
            extra_signature=spec.extra_signature,
            secrets=secrets,
            secret_headers=secret_headers,
            oauth2=oauth2,
            tls=tls,
            block_reason=block_reason,
            rotation=rotation,
            previous_until=previous_until,
            pull_lease=parse_duration(spec.pull.lease).total_seconds() if spec.pull else None,
            newest_signs=spec.signing.secret_ref is not None,
        )

    def subscribes_to(self, event_type: str) -> bool:
        """Whether it gets events of a type; `EVERY_TYPE` includes own types, whether they exist or not."""
        return event_type in self.events or (EVERY_TYPE in self.events and is_own_type(event_type))

    @property
    def sendable(self) -> bool:
        """Whether deliveries may be sent now, or taken by a consumer."""
        return bool(self.secrets) and not self.suspend and not self.block_reason

    @property
    def suspended_after_failures(self) -> bool:
        """Whether the operator has suspended it, because no attempt succeeded."""
        return self.block_reason == SUSPENDED_AFTER_FAILURES

    @property
    def expired(self) -> bool:
        """Whether its time is over, so that it gets no more deliveries."""
        return self.block_reason == EXPIRED

    @property
    def pulled(self) -> bool:
        """Whether consumers take the deliveries, so that no attempt sends them."""
        return self.pull_lease is not None


@dataclass(frozen=True, slots=True)
class Health:
    """The delivery health of an endpoint since the last publication.

    Attributes:
        error: text of the last attempt's error; empty after a 2xx answer, and if there was no attempt since the last
            publication.
        failures: how many deliveries failed finally since the last publication.
        operational_failures: how many of them were of operational events.
        limited_to: limit of concurrent attempts while the endpoint's attempts time out, None otherwise.
        succeeded: whether an attempt succeeded since the last publication.
        resumed: whether somebody resumed the suspended endpoint by a test or a retry.
    """

    counts: DeliveryCounts
    error: str = ""
    failures: int = 0
    operational_failures: int = 0
    limited_to: int | None = None
    succeeded: bool = False
    resumed: bool = False


DEFAULT_SETTINGS: Final = ProjectSettings()


class EndpointListener(Protocol):
    """A listener that acts when an endpoint appears, changes or is removed."""

    def endpoint_changed(self, endpoint: Endpoint) -> None:
        """Handle an endpoint that is new or changed."""

    def endpoint_gone(self, uid: str) -> None:
        """Handle an endpoint that accepts no more deliveries."""


@dataclass(slots=True)
class Registry:
    """Projects, event types and endpoints, indexed by the keys of their look-ups."""

    _projects: dict[tuple[str, str], ProjectSettings] = field(default_factory=dict)
    _event_types: dict[str, dict[str, str]] = field(default_factory=dict)
    _endpoints: dict[str, Endpoint] = field(default_factory=dict)
    _uids: dict[tuple[str, str], str] = field(default_factory=dict)
    _by_project: dict[tuple[str, str], dict[str, Endpoint]] = field(default_factory=dict)
    _listeners: list[EndpointListener] = field(default_factory=list)

    def listen(self, listener: EndpointListener) -> None:
        """Call a listener for every change from now on."""
        self._listeners.append(listener)

    def put_project(self, namespace: str, name: str, settings: ProjectSettings = DEFAULT_SETTINGS) -> None:
        """Let a project accept events, and apply its settings to its endpoints."""
        self._projects[namespace, name] = settings
        for endpoint in self.endpoints_of(namespace, name):
            self.put(endpoint)

    def remove_project(self, namespace: str, name: str) -> None:
        """Reject further events of a project."""
        self._projects.pop((namespace, name), None)

    def put_event_type(self, namespace: str, name: str, example: str) -> None:
        """Accept events of an own type of the namespace."""
        self._event_types.setdefault(namespace, {})[name] = example

    def remove_event_type(self, namespace: str, name: str) -> None:
        """Refuse further events of an own type."""
        self._event_types.get(namespace, {}).pop(name, None)

    def event_types(self, namespace: str) -> Mapping[str, str]:
        """Return the own types of a namespace, each with the text of its example, empty if it has none."""
        return self._event_types.get(namespace, {})

    def project(self, namespace: str, name: str) -> ProjectSettings | None:
        """Return the settings of a project, None if it does not exist."""
        return self._projects.get((namespace, name))

    def omits_payloads(self, namespace: str, project: str) -> bool:
        """Whether the log of a project shows no payloads; the settings of an unknown project could forbid them."""
        settings = self._projects.get((namespace, project))
        return settings is None or settings.omits_payloads

    def project_uid_of(self, endpoint_uid: str) -> str:
        """Return the uid of the project of an endpoint, empty if one of them is not known."""
        endpoint = self._endpoints.get(endpoint_uid)
        settings = None if endpoint is None else self.project(endpoint.namespace, endpoint.project)
        return "" if settings is None else settings.uid

    def put(self, endpoint: Endpoint) -> None:
        """Add an endpoint, or replace its earlier version."""
        settings = self._projects.get((endpoint.namespace, endpoint.project))
        if settings is not None and settings.omits_payloads != endpoint.omits_responses:
            endpoint = replace(endpoint, omits_responses=settings.omits_payloads)
        if self._endpoints.get(endpoint.uid) == endpoint:
            return
        self._forget(endpoint.uid)
        self._endpoints[endpoint.uid] = endpoint
        self._uids[endpoint.namespace, endpoint.name] = endpoint.uid
        self._by_project.setdefault((endpoint.namespace, endpoint.project), {})[endpoint.uid] = endpoint
        for listener in self._listeners:
            listener.endpoint_changed(endpoint)

    def remove(self, uid: str) -> None:
        """Remove an endpoint."""
        if self._forget(uid):
            for listener in self._listeners:
                listener.endpoint_gone(uid)

    def get(self, uid: str) -> Endpoint | None:
        """Return an endpoint by uid."""
        return self._endpoints.get(uid)

    def find(self, namespace: str, name: str) -> Endpoint | None:
        """Return an endpoint by its name in Kubernetes."""
        uid = self._uids.get((namespace, name))
        return self._endpoints.get(uid) if uid else None

    def subscribers(self, namespace: str, project: str, event_type: str) -> Iterator[Endpoint]:
        """Yield the project's endpoints that subscribe to an event type, suspended ones too."""
        is_own = is_own_type(event_type)
        for endpoint in self._by_project.get((namespace, project), {}).values():
            if event_type in endpoint.events or (is_own and EVERY_TYPE in endpoint.events):
                yield endpoint

    def endpoints_of(self, namespace: str, project: str | None) -> list[Endpoint]:
        """Return the endpoints of a project, or those of all projects of the namespace."""
        if project is not None:
            return list(self._by_project.get((namespace, project), {}).values())
        peers = [endpoints for (place, _), endpoints in self._by_project.items() if place == namespace]
        return [endpoint for endpoints in peers for endpoint in endpoints.values()]

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
