"""All tables together: the data that answers requests."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Final, TypeVar

import structlog

from hookwright_api.metrics import VIEW_AGE
from hookwright_api.view.informer import Informer
from hookwright_api.view.table import Record, Table
from hookwright_api.view.table_records import (
    EndedSessionsRecord,
    EndpointRecord,
    EventTypeRecord,
    KeyRecord,
    ProjectRecord,
    SessionKeysRecord,
    UserRecord,
)
from hookwright_crds.base import object_path, secrets_path
from hookwright_crds.events import described_types
from hookwright_crds.sessions import ENDED_SESSIONS_NAME, SESSION_KEYS_NAME, SessionKey
from hookwright_crds.users import USER_TYPE
from hookwright_runtime.kubernetes import KubernetesClient

log = structlog.get_logger(__name__)

R = TypeVar("R", bound=Record)

_BUILT_IN: Final[dict[str, Mapping[str, Any]]] = {document["type"]: document for document in described_types()}


class View:
    """Projects, keys, endpoints, event types, users and session keys, in the last known state of the API server."""

    def __init__(self) -> None:
        """Create an empty view that is not ready."""
        self.projects: Table[ProjectRecord] = Table(
            "Project",
            ProjectRecord.of,
            {
                "uid": lambda project: {(project.identity.namespace, project.identity.uid)},
                "organization": lambda project: {project.identity.namespace},
            },
        )
        self.keys: Table[KeyRecord] = Table(
            "ApiKey",
            KeyRecord.of,
            {
                "digest": lambda key: {*key.confirmed_digests},
                "project": lambda key: {(key.identity.namespace, key.project)},
            },
        )
        self.endpoints: Table[EndpointRecord] = Table(
            "WebhookEndpoint",
            EndpointRecord.of,
            {"project": lambda endpoint: {(endpoint.identity.namespace, endpoint.project)}},
        )
        self._event_types: Table[EventTypeRecord] = Table(
            "EventType", EventTypeRecord.of, {"organization": lambda record: {record.identity.namespace}}
        )
        self.users: Table[UserRecord] = Table("user Secret", UserRecord.of, {"email": lambda user: {user.email}})
        self._session_keys: Table[SessionKeysRecord] = Table("session keys Secret", SessionKeysRecord.of)
        self.ended_sessions: Table[EndedSessionsRecord] = Table("ended sessions Secret", EndedSessionsRecord.of)
        self._users_namespace = ""
        self._reflectors: list[Informer] = []

    @property
    def ready(self) -> bool:
        """Whether everything was listed once; before that, a missing object proves nothing."""
        return bool(self._reflectors) and all(reflector.synced.is_set() for reflector in self._reflectors)

    @property
    def session_keys(self) -> tuple[SessionKey, ...]:
        """The keys of session tokens, newest first; empty until the operator has created one."""
        record = self._session_keys.get(self._users_namespace, SESSION_KEYS_NAME)
        return record.keys if record else ()

    def sessions_end(self, user: UserRecord) -> float:
        """Return the time until which issued tokens of a user are refused, in milliseconds since the epoch."""
        record = self.ended_sessions.get(self._users_namespace, ENDED_SESSIONS_NAME)
        return record.ends.get(user.identity.name, 0) if record else 0

    def project(self, organization: str, name_or_uid: str) -> ProjectRecord | None:
        """Return a project of an organization by its name or its uid."""
        record = self.projects.get(organization, name_or_uid)
        if record is not None:
            return record
        return next(iter(self.projects.find("uid", (organization, name_or_uid))), None)

    def own_types(self, organization: str) -> dict[str, EventTypeRecord]:
        """Return the EventTypes of an organization, in the order of their names."""
        records = {record.identity.name: record for record in self._event_types.find("organization", organization)}
        return {name: records[name] for name in sorted(records)}

    def event_types(self, organization: str) -> dict[str, Mapping[str, Any]]:
        """Return each event type of an organization in the form of `/v1`: the built-in ones, then its own ones."""
        return _BUILT_IN | {name: record.document for name, record in self.own_types(organization).items()}

    def user(self, email: str) -> UserRecord | None:
        """Return the user with a normalized address; of several, the one created first."""
        return next(iter(self.users.find("email", email)), None)

    def follow(
        self, kube: KubernetesClient, *, users_namespace: str, namespaces: tuple[str, ...]
    ) -> list[Coroutine[None, None, None]]:
        """Return the coroutines that keep the view current; each runs until cancelled.

        Args:
            kube: the client of the API server.
            users_namespace: the namespace of users and session keys.
            namespaces: the organizations' namespaces, none for all.
        """
        self._users_namespace = users_namespace
        secrets = secrets_path(users_namespace)
        users, keys = f"type={USER_TYPE}", f"metadata.name={SESSION_KEYS_NAME}"
        ended_sessions = f"metadata.name={ENDED_SESSIONS_NAME}"
        self._reflectors = [
            *_resource(kube, "projects", self.projects, namespaces),
            *_resource(kube, "apikeys", self.keys, namespaces),
            *_resource(kube, "webhookendpoints", self.endpoints, namespaces),
            *_resource(kube, "eventtypes", self._event_types, namespaces),
            Informer(kube, "users", secrets, self.users, params={"fieldSelector": users}),
            Informer(kube, "sessionkeys", secrets, self._session_keys, params={"fieldSelector": keys}),
            Informer(kube, "endedsessions", secrets, self.ended_sessions, params={"fieldSelector": ended_sessions}),
        ]
        self._publish_age()
        return [reflector.run() for reflector in self._reflectors]

    def _publish_age(self) -> None:
        loop = asyncio.get_running_loop()
        for name in {reflector.name for reflector in self._reflectors}:
            VIEW_AGE.labels(name).set_function(self._age_of(name, loop.time))

    def _age_of(self, name: str, now: Callable[[], float]) -> Callable[[], float]:
        return lambda: max(reflector.age(now()) for reflector in self._reflectors if reflector.name == name)


def _resource(
    kube: KubernetesClient, plural: str, table: Table[Any], namespaces: tuple[str, ...]
) -> Iterator[Informer]:
    for namespace in namespaces or (None,):
        yield Informer(kube, plural, object_path(plural, namespace), table, namespace=namespace)
