"""Comparison of the cache with the objects in the API server.

At the start, no event reports that the watches have shown every object. If a watch is interrupted for too long, the API
server no longer knows the missed events. kopf then lists the objects again and shows the existing ones, but it does not
report the deleted ones. So after such a gap, this module lists every kind once more. It also lists kinds of which kopf
showed no object, because all objects of them may be deleted.
"""

import asyncio
from collections.abc import Collection
from typing import Final

from hookwright_crds.resources import Kind
from hookwright_operator.watch.cache import MODELS, Cache
from hookwright_operator.watch.changes import Watch
from hookwright_operator.watch.kubernetes_paths import SELECTOR, resources_path, secrets_path
from hookwright_runtime.kubernetes import KubernetesClient

_LOOK_SECONDS: Final = 0.05
_LOOKS: Final = 100


async def until_shown(kube: KubernetesClient, cache: Cache, namespaces: Collection[str]) -> None:
    """Return when the watches have shown everything that exists.

    Args:
        kube: used to list the objects.
        cache: receives the objects that the watches show.
        namespaces: the namespaces to serve; empty: all.

    Raises:
        KubeError: the lists cannot be read.
    """
    while True:
        missing = {uid for kind in (*MODELS, None) for uid in await uids_of(kube, kind, namespaces)}
        # A watch never shows an object that was created and deleted within a gap, so the list is read again after a
        # while.
        for _ in range(_LOOKS):
            missing = {uid for uid in missing if not cache.knows(uid)}
            if not missing:
                return
            await asyncio.sleep(_LOOK_SECONDS)


async def uids_of(kube: KubernetesClient, kind: Kind | None, namespaces: Collection[str]) -> set[str]:
    """Return the uids of all objects of a kind, or of Hookwright's Secrets if the kind is None, page by page.

    Args:
        kube: used to list the objects.
        kind: kind of the objects; None: Hookwright's Secrets.
        namespaces: the namespaces to list; empty: all.

    Raises:
        KubeError: the objects cannot be listed.
    """
    found: set[str] = set()
    for namespace in namespaces or (None,):
        path = secrets_path(namespace) if kind is None else resources_path(kind, namespace)
        selected = {"labelSelector": SELECTOR} if kind is None else {}
        async for page in kube.pages(path, **selected):
            found.update(body["metadata"]["uid"] for body in page["items"])
    return found


async def resync(kube: KubernetesClient, watch: Watch, namespaces: Collection[str]) -> int:
    """Apply missed deletions to the cache if kopf listed a kind again; return their number.

    Args:
        kube: used for one list per kind.
        watch: knows whether kopf listed a kind again, and receives the deletions.
        namespaces: the namespaces to serve; empty: all.

    Raises:
        KubeError: the objects cannot be listed; the audit stays due.
    """
    if not watch.relisted:
        return 0
    watch.relisted = False
    try:
        return sum([await _audit_kind(kube, watch, kind, namespaces) for kind in (*MODELS, None)])
    except BaseException:
        watch.relisted = True
        raise


async def _audit_kind(kube: KubernetesClient, watch: Watch, kind: Kind | None, namespaces: Collection[str]) -> int:
    missed = 0
    before = list(watch.cache.names(kind))
    present = await uids_of(kube, kind, namespaces)
    for (namespace, name), uid in before:
        if uid not in present:
            missed += 1
            body = {"metadata": {"namespace": namespace, "name": name, "uid": uid}}
            if kind is None:
                watch.secret_happened("DELETED", body)
            else:
                watch.happened(kind, "DELETED", body)
    return missed
