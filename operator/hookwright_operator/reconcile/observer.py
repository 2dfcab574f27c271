"""Reads the state of one object and its dependencies: from the cache, and rarely from the API server and the store."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from hookwright_crds.base import MANAGED_BY, MANAGER, ObjectMeta, secrets_path
from hookwright_crds.resources import ApiKey, EventType, HandoverState, Project, WebhookEndpoint
from hookwright_crds.signing_fields import SecretRef
from hookwright_crds.signing_secrets import SIGNING_LABEL
from hookwright_crds.trimming import TOKEN_TYPE, decode_field
from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.reconcile.apikey import ObservedApiKey, identity_of
from hookwright_operator.reconcile.endpoint import DueFailures, ObservedEndpoint
from hookwright_operator.reconcile.event_type import ObservedEventType
from hookwright_operator.reconcile.project import ObservedProject
from hookwright_operator.reconcile.signing_secret import PREVIOUS_FIELDS, SECRET_FIELD, signing_secret_name
from hookwright_operator.registry import Health, Registry
from hookwright_operator.store.key_digests import KeyDigests, Owner
from hookwright_operator.watch.cache import Cache
from hookwright_operator.watch.objects import Secret, key_of
from hookwright_runtime.errors import KubeError
from hookwright_runtime.kubernetes import KubernetesClient

_LONGEST: Final = 4096
"""Characters of a referenced field that are read; a longer field counts as invalid."""


@dataclass(frozen=True, slots=True)
class ResourceObserver:
    """The state of the cluster and of the owners of digests, as plans need it.

    A follower (``leads`` is false) reads no Secret only because it is missing, and compares no digests.
    """

    kube: KubernetesClient
    cache: Cache
    digests: KeyDigests
    registry: Registry
    guard: Guard
    allow_http: bool
    finalizer_grace: timedelta
    max_timeout: float

    def project(self, project: Project) -> ObservedProject:
        """Observe a Project and the number of its children."""
        key = key_of(project)
        children = self.cache.dependents(key)
        keys = sum(child.kind == "ApiKey" for child in children)
        return ObservedProject(project, keys, len(children) - keys, self.cache.unsupported(key))

    def event_type(self, event_type: EventType) -> ObservedEventType:
        """Observe an EventType and the number of endpoints that name it."""
        key = key_of(event_type)
        return ObservedEventType(event_type, len(self.cache.dependents(key)), self.cache.unsupported(key))

    async def apikey(self, key: ApiKey, *, leads: bool) -> ObservedApiKey:
        """Observe an ApiKey, its Project, its handover Secret and the owner of its digest.

        Raises:
            KubeError: the Secret could not be read.
            StoreUnavailable: the owner of the digest could not be read.
        """
        meta, handover, status = key.metadata, key.spec.handover, key.status.handover
        expected = leads and status is not None and status.state is HandoverState.DELIVERED
        secret = await self._secret(meta, handover.secret_name, expected=expected) if handover else None
        return ObservedApiKey(
            key,
            self.cache.project(meta.namespace, key.spec.project_ref.name),
            secret,
            duplicate=leads and await self._duplicate(key, secret),
            unsupported_parts=self.cache.unsupported(key_of(key)),
        )

    async def endpoint(
        self, endpoint: WebhookEndpoint, health: Health | None, failures: DueFailures, *, leads: bool
    ) -> ObservedEndpoint:
        """Observe an endpoint, its Project and its signing Secret.

        Raises:
            KubeError: the Secret could not be read.
        """
        meta, reference = endpoint.metadata, endpoint.spec.signing.secret_ref
        refusals = [(field, self.guard.literal_refusal(url)) for field, url in endpoint.spec.urls.items()]
        if reference is not None:
            secret = await read_referenced(self.kube, meta.namespace, reference)
        else:
            expected = leads and endpoint.status.signing_secret_ref is not None and meta.deletion_timestamp is None
            secret = await self._secret(meta, signing_secret_name(meta.name), expected=expected, may_adopt=True)
        return ObservedEndpoint(
            endpoint=endpoint,
            project=self.cache.project(meta.namespace, endpoint.spec.project_ref.name),
            secret=secret,
            health=health,
            allow_http=self.allow_http,
            finalizer_grace=self.finalizer_grace,
            max_timeout=self.max_timeout,
            failures=failures,
            unsupported_parts=self.cache.unsupported(key_of(endpoint)),
            refused_address=next((f"{field}: {fault}" for field, fault in refusals if fault), ""),
            credentials=self.cache.credentials_of(endpoint),
            authorities=self.cache.authorities_of(endpoint),
            own_types=self.cache.event_types(meta.namespace),
            kept_secrets=registration.secrets if (registration := self.registry.get(meta.uid)) is not None else (),
        )

    async def _duplicate(self, key: ApiKey, secret: Secret | None) -> bool:
        """Return whether the key's digest belongs to another ApiKey; record the key as owner if there is none.

        The owner is recorded before the status confirms the key, because the API accepts confirmed keys only.
        """
        identity = identity_of(key, secret)
        if identity is None or key.metadata.deletion_timestamp is not None:
            return False
        me = Owner(key.metadata.namespace, key.metadata.name)
        owner = await self.digests.owner_of(identity.digest)
        if owner is None:
            first = self.cache.first_with_digest(identity.digest)
            if first is not None and (first.namespace, first.name) != me:
                return True
            owner = await self.digests.claim(identity.digest, me, lambda: self.cache.digests_in(me.namespace))
        return owner != me

    async def _secret(self, owner: ObjectMeta, name: str, *, expected: bool, may_adopt: bool = False) -> Secret | None:
        secret = self.cache.secret(owner.namespace, name, owner_uid=owner.uid, may_adopt=may_adopt)
        if secret is not None or not expected:
            return secret
        # A watch by labels shows a Secret that lost them as deleted; only a read shows its true state.
        try:
            self.cache.see_secret(await self.kube.get(secrets_path(owner.namespace, name)))
        except KubeError as error:
            if error.status != 404:
                raise
        return self.cache.secret(owner.namespace, name, owner_uid=owner.uid, may_adopt=may_adopt)


async def read_referenced(kube: KubernetesClient, namespace: str, reference: SecretRef) -> Secret | None:
    """Return a Secret in the form of the operator's own ones, None if it does not exist.

    No watch shows a Secret that a tenant makes (``spec.signing.secretRef``), because it has none of the operator's
    labels. A Secret that the operator made for another object is marked as foreign. A text of any form could be a
    password, so ``raw`` needs the label of the owner; without it the Secret has no fields.

    Raises:
        KubeError: the Secret could not be read.
    """
    try:
        return _referenced(await kube.get(secrets_path(namespace, reference.name)), reference)
    except KubeError as error:
        if error.status == 404:
            return None
        raise


def _referenced(body: Mapping[str, Any], reference: SecretRef) -> Secret:
    meta = body["metadata"]
    labels = meta.get("labels") or {}
    if labels.get(MANAGED_BY) == MANAGER:
        return Secret(meta["namespace"], meta["name"], fields={}, uid=meta["uid"], foreign=True)
    value = (body.get("data") or {}).get(reference.key, "")
    text = decode_field(value if len(value) <= _LONGEST else "")
    secrets = text.split()
    if reference.encoding == "raw":
        is_offered = labels.get(SIGNING_LABEL) == "true" and body.get("type") != TOKEN_TYPE
        secrets = [line.strip() for line in text.splitlines() if line.strip()] if is_offered else []
    fields = dict(zip((SECRET_FIELD, *PREVIOUS_FIELDS), secrets, strict=False))
    return Secret(meta["namespace"], meta["name"], fields=fields, uid=meta["uid"])
