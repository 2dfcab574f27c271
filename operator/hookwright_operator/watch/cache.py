"""Pure: the objects that the watches have shown, and their dependencies.

The watches and the answers to the operator's own writes update it, so that a plan made immediately after a write does
not use older data. A steady state needs no read.
"""

import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from hookwright_crds import GROUP
from hookwright_crds.base import LATEST, MANAGED_BY, MANAGER, ObjectMeta, ProjectRef
from hookwright_crds.conditions import Condition
from hookwright_crds.events import is_own_type
from hookwright_crds.reading import UNDERSTOOD, Unsupported, read
from hookwright_crds.resources import ApiKey, DeliveryCounts, EventType, Kind, Resource, WebhookEndpoint
from hookwright_crds.signing_fields import Signing
from hookwright_crds.trimming import AUTHORITIES_FIELD, secret_fields, trimmed, trimmed_secret
from hookwright_operator.watch.objects import MODELS, OWNER_UID, Key, Parent, Secret, WatchedKind, key_of

Name = tuple[str, str]
"""Namespace and name."""

_REMEMBERED_DEATHS: Final = 4096
M = TypeVar("M")
N = TypeVar("N")
_REPEATED: Final = (Condition, DeliveryCounts, ProjectRef, Signing)
_SINGLE: Final = (bool, int, datetime, type(None))
_NO_NAMES: Final = set[str]()
# These return the first of equal values. A tenant's map may have 128 KiB, and stays here when its object is gone.
_shared_part, _shared_map = lru_cache(2048)(lambda part: part), lru_cache(128)(dict[str, str])


@dataclass(slots=True)
class Cache:
    """Projects, keys, endpoints, event types and labelled Secrets by name.

    Attributes:
        answered: versions of the operator's own writes that the cache has from the answers, and no watch has shown yet.
    """

    answered: set[str] = field(default_factory=set)
    _resources: dict[Key, Resource] = field(default_factory=dict)
    _dependents: dict[Key, set[Key]] = field(default_factory=dict)
    _event_types: dict[str, set[str]] = field(default_factory=dict)
    _changed_references: set[Key] = field(default_factory=set)
    _secrets: dict[Name, Secret] = field(default_factory=dict)
    _config_maps: dict[Name, Secret] = field(default_factory=dict)
    _credential_users: dict[Name, set[Key]] = field(default_factory=dict)
    _unfit: dict[Key, str] = field(default_factory=dict)
    _unsupported_parts: dict[Key, Unsupported] = field(default_factory=dict)
    _keys: dict[str, Key] = field(default_factory=dict)
    _digests: dict[str, set[Key]] = field(default_factory=dict)
    _versions: dict[str, int] = field(default_factory=dict)
    _dead: dict[str, int] = field(default_factory=dict)

    def see(self, kind: Kind, body: Mapping[str, Any]) -> Key | None:
        """Store an object from a watch or an answer; return None if it is not new.

        The operator sees each own write twice, in the answer and in the watch. Only the first one is new.

        Raises:
            ValueError: the object does not fit the contract.
        """
        meta = body["metadata"]
        if not self._newer(meta):
            return None
        key = Key(kind, meta["namespace"], meta["name"])
        self._unfit[key] = meta["uid"]
        resource, unsupported_parts = self._read(key, trimmed(body))
        _share(resource)
        del self._unfit[key]
        references = references_of(resource)
        self._changed_references |= references ^ self._detach(key)
        self._resources[key] = resource
        self._unsupported_parts.pop(key, None)
        if unsupported_parts:
            self._unsupported_parts[key] = unsupported_parts
        self._keys[resource.metadata.uid] = key
        if isinstance(resource, ApiKey):
            for digest in digests_of(resource):
                self._digests.setdefault(digest, set()).add(key)
        for name in _credential_names(resource):
            self._credential_users.setdefault(name, set()).add(key)
        for reference in references:
            self._dependents.setdefault(reference, set()).add(key)
        if isinstance(resource, EventType) and resource.metadata.deletion_timestamp is None:
            self._event_types.setdefault(key.namespace, set()).add(key.name)
        return key

    def lose(self, kind: Kind, body: Mapping[str, Any]) -> Key:
        """Remove an object that was deleted."""
        meta = ObjectMeta.model_validate(body["metadata"])
        key = Key(kind, meta.namespace, meta.name)
        resource = self._resources.get(key)
        if resource is not None and resource.metadata.uid == meta.uid:
            self._changed_references |= self._detach(key)
            del self._resources[key]
            self._unsupported_parts.pop(key, None)
        if self._unfit.get(key) == meta.uid:
            del self._unfit[key]
        self._bury(meta)
        return key

    def see_secret(self, body: Mapping[str, Any], *, is_config_map: bool = False) -> Secret | None:
        """Store a Secret, or a ConfigMap in its form, from a watch or an answer; return None if it is not new."""
        if not self._newer(body["metadata"]):
            return None
        secret = _secret(trimmed_secret(body), is_config_map=is_config_map)
        (self._config_maps if is_config_map else self._secrets)[secret.namespace, secret.name] = secret
        return secret

    def lose_secret(self, body: Mapping[str, Any], *, is_config_map: bool = False) -> Secret | None:
        """Remove a Secret that was deleted or has lost the labels of the watch; return its last known state."""
        meta = ObjectMeta.model_validate(body["metadata"])
        self._bury(meta)
        secrets = self._config_maps if is_config_map else self._secrets
        secret = secrets.get((meta.namespace, meta.name))
        return secrets.pop((meta.namespace, meta.name)) if secret and secret.uid == meta.uid else None

    def knows(self, uid: str) -> bool:
        """Whether an object was ever shown, including deleted and invalid objects."""
        return uid in self._versions or uid in self._dead

    def resource(self, key: Key) -> Resource | None:
        """Return an object."""
        return self._resources.get(key)

    def unsupported(self, key: Key) -> Unsupported:
        """Return the parts of an object that this version does not understand."""
        return self._unsupported_parts.get(key, UNDERSTOOD)

    def number_unsupported(self, kind: Kind) -> int:
        """Return how many objects of a kind have parts that this version does not understand."""
        return sum(key.kind == kind for key in (*self._unsupported_parts, *self._unfit))

    def living(self, key: Key) -> Parent | None:
        """Return an object to which others may refer: it exists and is not being deleted."""
        resource = self._resources.get(key)
        if resource is None or resource.metadata.deletion_timestamp is not None:
            return None
        return Parent(resource.metadata.name, resource.metadata.uid)

    def project(self, namespace: str, name: str) -> Parent | None:
        """Return a Project that can have children."""
        return self.living(Key("Project", namespace, name))

    def event_types(self, namespace: str) -> Collection[str]:
        """Return the names of the EventTypes of a namespace that are not being deleted."""
        return self._event_types.get(namespace, ())

    def secret(self, namespace: str, name: str, *, owner_uid: str, may_adopt: bool = False) -> Secret | None:
        """Return the Secret of a name, marked as foreign if it was not created for this owner.

        With ``may_adopt``, a Secret whose owner never existed in this cluster is not foreign: a backup restored it.

        The cache then forgets a foreign Secret that no watch follows: the next caller must read it again.
        """
        secret = self._secrets.get((namespace, name))
        if secret is None or secret.owner_uid == owner_uid or secret.owned_by(owner_uid):
            return secret
        if may_adopt and secret.owner_uid and not secret.owner_references and not self.knows(secret.owner_uid):
            return secret
        if secret.owner_uid == "" and not secret.is_credential:
            del self._secrets[namespace, name]
            self._versions.pop(secret.uid, None)
        return Secret(namespace=namespace, name=name, fields={}, uid=secret.uid, foreign=True)

    def dependents(self, key: Key) -> tuple[Key, ...]:
        """Return the keys and endpoints that name a Project or an EventType, even if it does not exist."""
        return tuple(self._dependents.get(key, ()))

    def take_changed_references(self) -> set[Key]:
        """Return the Projects and EventTypes that have gained or lost a dependent since the last call."""
        references, self._changed_references = self._changed_references, set()
        return references

    def secret_at(self, namespace: str, name: str) -> Secret | None:
        """Return the Secret of a name, independent of its creator."""
        return self._secrets.get((namespace, name))

    def credentials_of(self, endpoint: WebhookEndpoint) -> dict[str, Secret]:
        """Return the Secrets that it names as credentials by name, those that exist and that their tenant offers."""
        secrets = {name: self._secrets.get((namespace, name)) for namespace, name in _credential_names(endpoint)}
        return {name: secret for name, secret in secrets.items() if secret is not None and secret.is_credential}

    def authorities_of(self, endpoint: WebhookEndpoint) -> dict[str, str]:
        """Return the certificates of the ConfigMaps that it trusts by name, of those that exist; empty if too long."""
        references = endpoint.spec.tls.ca_certificate_refs if endpoint.spec.tls else ()
        maps = [self._config_maps.get((endpoint.metadata.namespace, reference.name)) for reference in references]
        return {config_map.name: config_map.fields[AUTHORITIES_FIELD] for config_map in maps if config_map is not None}

    def credential_users(self, name: Name) -> tuple[Key, ...]:
        """Return the endpoints that name a Secret or ConfigMap as a credential."""
        return tuple(self._credential_users.get(name, ()))

    def owner_of(self, secret: Secret) -> Key | None:
        """Return the key of the object that owns a Secret, found by the ownerReference or else by the label."""
        for reference in secret.owner_references:
            if reference.api_version.startswith(f"{GROUP}/") and reference.kind in MODELS:
                return Key(reference.kind, secret.namespace, reference.name)
        return self._keys.get(secret.owner_uid)

    def __iter__(self) -> Iterator[Key]:
        """Yield every object's key."""
        yield from tuple(self._resources)

    def names(self, kind: WatchedKind) -> Iterator[tuple[Name, str]]:
        """Yield name and uid of every object of a kind.

        This includes objects that do not fit the contract: they exist, so their pending deliveries are not orphans.
        """
        if kind is None or kind == "ConfigMap":
            secrets = self._secrets if kind is None else self._config_maps
            yield from [(name, secret.uid) for name, secret in secrets.items()]
            return
        unfit = {uid: key for key, uid in self._unfit.items()}
        yield from [((key.namespace, key.name), uid) for uid, key in (self._keys | unfit).items() if key.kind == kind]

    def first_with_digest(self, digest: str) -> Key | None:
        """Return the ApiKey that was created first among those with a digest; the uid decides between equals."""
        declaring = [peer for key in self._digests.get(digest, ()) if (peer := self._resources.get(key))]
        first = min(
            declaring, key=lambda peer: (peer.metadata.creation_timestamp or LATEST, peer.metadata.uid), default=None
        )
        return key_of(first) if first is not None else None

    def digests_in(self, namespace: str) -> frozenset[str]:
        """Return the digests of a namespace's ApiKeys."""
        return frozenset(
            digest for digest, keys in self._digests.items() if any(key.namespace == namespace for key in keys)
        )

    def _read(self, key: Key, body: dict[str, Any]) -> tuple[Resource, Unsupported]:
        """Read an object; a known generation of it has the known spec, which is not validated and stored again."""
        known, meta = self._resources.get(key), body["metadata"]
        identity = meta["uid"], meta.get("generation")
        if known is not None and identity == (known.metadata.uid, known.metadata.generation):
            with suppress(ValueError):
                return type(known).model_validate({**body, "spec": known.spec}), self.unsupported(key)
        return read(MODELS[key.kind], body)

    def _detach(self, key: Key) -> set[Key]:
        """Remove an object from the indexes; return what it named."""
        resource = self._resources.get(key)
        if resource is None:
            return set()
        for digest in digests_of(resource) if isinstance(resource, ApiKey) else ():
            _discard(self._digests, digest, key)
        for name in _credential_names(resource):
            _discard(self._credential_users, name, key)
        if key.kind == "EventType":
            _discard(self._event_types, key.namespace, key.name)
        references = references_of(resource)
        for reference in references:
            _discard(self._dependents, reference, key)
        return references

    def _newer(self, metadata: Mapping[str, Any]) -> bool:
        uid, version = metadata["uid"], int(metadata["resourceVersion"])
        if self._versions.get(uid, -1) >= version or self._dead.get(uid, -1) > version:
            self.answered.discard(metadata["resourceVersion"])
            return False
        self._versions[uid] = version
        return True

    def _bury(self, meta: ObjectMeta) -> None:
        """Record the last seen version of a deleted object, so that an older answer does not restore it.

        A Secret that lost its labels is deleted only for the watch: a later read shows the same or a newer version.
        """
        version = self._versions.pop(meta.uid, -1)
        self._keys.pop(meta.uid, None)
        self._dead[meta.uid] = int(meta.resource_version) if meta.resource_version else version
        while len(self._dead) > _REMEMBERED_DEATHS:
            del self._dead[next(iter(self._dead))]


def _discard(index: dict[N, set[M]], name: N, key: M) -> None:
    keys = index.get(name, set())
    keys.discard(key)
    if not keys:
        index.pop(name, None)


def _credential_names(resource: Resource) -> set[Name]:
    if not isinstance(resource, WebhookEndpoint):
        return set()
    return {(resource.metadata.namespace, name) for name in resource.spec.credential_names}


def references_of(resource: Resource) -> set[Key]:
    """Return the Project and the EventTypes that an object names, whether they exist or not."""
    if not isinstance(resource, ApiKey | WebhookEndpoint):
        return set()
    namespace = resource.metadata.namespace
    project = Key("Project", namespace, resource.spec.project_ref.name)
    events = resource.spec.events if isinstance(resource, WebhookEndpoint) else ()
    return {project, *(Key("EventType", namespace, name) for name in events if is_own_type(name))}


def digests_of(key: ApiKey) -> frozenset[str]:
    """Return the digests that an ApiKey declares, or that the operator has recorded for it and its replaced keys."""
    digests = (key.spec.digest or key.status.digest, *(predecessor.digest for predecessor in key.status.previous))
    return frozenset(filter(None, digests))


def _share(value: Any) -> Any:
    """Return a value whose equal parts are one object; nobody needs the set of given fields that each model has."""
    if type(value) is str:  # an enum cannot be interned
        return sys.intern(value)
    if isinstance(value, tuple):
        return tuple(map(_share, value))
    if isinstance(value, dict):
        return _shared_map(tuple((_share(name), _share(part)) for name, part in value.items()))
    if isinstance(value, BaseModel) and value.model_fields_set is not _NO_NAMES:
        object.__setattr__(value, "__pydantic_fields_set__", _NO_NAMES)
        for name, part in value.__dict__.items():
            if not isinstance(part, _SINGLE):
                value.__dict__[name] = _share(part)
    return _shared_part(value) if isinstance(value, _REPEATED) else value


def _secret(body: Mapping[str, Any], *, is_config_map: bool) -> Secret:
    meta = _share(ObjectMeta.model_validate(body["metadata"]))
    made_by_us = meta.labels.get(MANAGED_BY) == MANAGER
    return Secret(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        fields={AUTHORITIES_FIELD: (body.get("data") or {}).get(AUTHORITIES_FIELD, "")}
        if is_config_map
        else secret_fields(body),
        owner_uid=meta.labels.get(OWNER_UID, "") if made_by_us else "",
        owner_references=meta.owner_references,
        labels=meta.labels,
        annotations=meta.annotations,
        resource_version=meta.resource_version,
    )
