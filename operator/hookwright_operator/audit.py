"""Compares what the watches have shown with what there is.

At the start nobody tells when everything has been shown. And when a watch was away too long the API server no longer
knows what it missed; kopf then lists anew and shows what is there, but nobody tells what is not. So after such a gap
every kind is listed once more here, also those of which nothing was shown: perhaps nothing is left of them.
"""

import asyncio
from collections.abc import Collection
from typing import Final

from hookwright_crds.resources import Kind
from hookwright_operator.handlers import Watch
from hookwright_operator.kube import Kube
from hookwright_operator.pages import MOST_OBJECTS
from hookwright_operator.reconcile.cache import MODELS, Cache
from hookwright_operator.reconcile.paths import SELECTOR, resources_path, secrets_path

_LOOK_SECONDS: Final = 0.05
_LOOKS: Final = 100


async def until_shown(kube: Kube, cache: Cache, namespaces: Collection[str]) -> None:
    """Return when the watches have shown everything that exists.

    Args:
        kube: asked for lists.
        cache: takes in what the watches show, meanwhile.
        namespaces: those that are served, all where empty.

    Raises:
        KubeError: the lists cannot be had.
    """
    while True:
        missing = {uid for kind in (*MODELS, None) for uid in await uids_of(kube, kind, namespaces)}
        # What was created and deleted within a gap of a watch is never shown, so after a while it is listed anew.
        for _ in range(_LOOKS):
            missing = {uid for uid in missing if not cache.knows(uid)}
            if not missing:
                return
            await asyncio.sleep(_LOOK_SECONDS)


async def uids_of(kube: Kube, kind: Kind | None, namespaces: Collection[str]) -> set[str]:
    """Return the uids of all objects of a kind, or of our Secrets where it is None, a page at a time.

    Args:
        kube: asked for them.
        kind: of what.
        namespaces: where, everywhere where empty.

    Raises:
        KubeError: they cannot be had.
    """
    found: set[str] = set()
    for namespace in namespaces or (None,):
        path = secrets_path(namespace) if kind is None else resources_path(kind, namespace)
        selected = {"labelSelector": SELECTOR} if kind is None else {}
        following = ""
        while True:
            page = await kube.get(
                path, limit=str(MOST_OBJECTS), **selected, **({"continue": following} if following else {})
            )
            found.update(body["metadata"]["uid"] for body in page["items"])
            following = page["metadata"].get("continue", "")
            if not following:
                break
    return found


async def audit(kube: Kube, watch: Watch, namespaces: Collection[str]) -> int:
    """Take in the deletions missed where something was listed anew; return how many there were.

    Args:
        kube: asked for one list a kind.
        watch: tells whether something was listed anew, and is told of what is gone.
        namespaces: those that are served, all where empty.

    Raises:
        KubeError: the lists cannot be had; the audit stays due.
    """
    if not watch.relisted:
        return 0
    watch.relisted = False
    try:
        return sum([await _audit_kind(kube, watch, kind, namespaces) for kind in (*MODELS, None)])
    except BaseException:
        watch.relisted = True
        raise


async def _audit_kind(kube: Kube, watch: Watch, kind: Kind | None, namespaces: Collection[str]) -> int:
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
