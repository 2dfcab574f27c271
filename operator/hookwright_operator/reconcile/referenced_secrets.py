"""Secrets of tenants that endpoints sign with (``spec.signing.secretRef``), read from the API server.

No watch shows these Secrets, because they have none of the operator's labels. So each is read again after a minute.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from hookwright_crds.base import MANAGED_BY
from hookwright_crds.resources import SecretRef
from hookwright_operator.reconcile.signing_secret import PREVIOUS_FIELDS, READ_AGAIN, SECRET_FIELD
from hookwright_operator.watch.kubernetes_paths import secrets_path
from hookwright_operator.watch.objects import MANAGER, Secret
from hookwright_runtime.errors import KubeError
from hookwright_runtime.kubernetes import KubernetesClient

_LONGEST: Final = 4096
"""Characters of a field that are read; a longer field counts as invalid."""
_MOST: Final = 10_000


class ReferencedSecrets:
    """Reads Secrets of tenants, and keeps each for a minute.

    Args:
        kube: reads from the API server.
        clock: the time.
    """

    def __init__(self, kube: KubernetesClient, clock: Callable[[], datetime]) -> None:
        self._kube, self._clock = kube, clock
        self._kept: dict[tuple[str, str, str], tuple[datetime, Secret]] = {}

    async def read(self, namespace: str, reference: SecretRef) -> Secret | None:
        """Return a Secret in the form of the operator's own ones, None if it does not exist.

        A Secret that the operator made for another object is marked as foreign.

        Raises:
            KubeError: the Secret could not be read.
        """
        place, now = (namespace, reference.name, reference.key), self._clock()
        kept = self._kept.get(place)
        if kept is not None and now - kept[0] < READ_AGAIN:
            return kept[1]
        self._kept.pop(place, None)
        try:
            body = await self._kube.get(secrets_path(namespace, reference.name))
        except KubeError as error:
            if error.status == 404:
                return None
            raise
        found = _secret(body, reference.key)
        while len(self._kept) >= _MOST:
            del self._kept[next(iter(self._kept))]
        self._kept[place] = now, found
        return found


def _secret(body: Mapping[str, Any], key: str) -> Secret:
    meta = body["metadata"]
    if (meta.get("labels") or {}).get(MANAGED_BY) == MANAGER:
        return Secret(meta["namespace"], meta["name"], fields={}, uid=meta["uid"], foreign=True)
    written = (body.get("data") or {}).get(key, "")
    try:
        text = base64.b64decode(written if len(written) <= _LONGEST else "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        text = ""
    fields = dict(zip((SECRET_FIELD, *PREVIOUS_FIELDS), text.split(), strict=False))
    return Secret(meta["namespace"], meta["name"], fields=fields, uid=meta["uid"])
