"""Finds deletions that the watches missed.

When a watch was away too long the API server no longer knows what it missed; kopf then lists anew and
shows what is there, but nobody tells what is not. So after such a gap every kind is listed once more here,
also those of which nothing was shown: perhaps nothing is left of them.
"""

from collections.abc import Collection, Mapping
from typing import Any

from hookwright_crds.resources import Kind
from hookwright_operator.handlers import Watch
from hookwright_operator.kube import Kube
from hookwright_operator.reconcile.cache import MODELS
from hookwright_operator.reconcile.paths import SELECTOR, resources_path, secrets_path


async def _listed(kube: Kube, kind: Kind | None, namespaces: Collection[str]) -> list[Mapping[str, Any]]:
    params = {"labelSelector": SELECTOR} if kind is None else {}
    found: list[Mapping[str, Any]] = []
    for namespace in namespaces or (None,):
        path = secrets_path(namespace) if kind is None else resources_path(kind, namespace)
        found.extend((await kube.get(path, **params))["items"])
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
    present = {body["metadata"]["uid"] for body in await _listed(kube, kind, namespaces)}
    for (namespace, name), uid in before:
        if uid not in present:
            missed += 1
            body = {"metadata": {"namespace": namespace, "name": name, "uid": uid}}
            if kind is None:
                watch.secret_happened("DELETED", body)
            else:
                watch.happened(kind, "DELETED", body)
    return missed


async def is_empty(kube: Kube, namespaces: Collection[str]) -> bool:
    """Tell whether the cluster has nothing of ours, in which case no watch will ever say a word."""
    for kind in MODELS:
        for namespace in namespaces or (None,):
            if (await kube.get(resources_path(kind, namespace), limit="1"))["items"]:
                return False
    for namespace in namespaces or (None,):
        if (await kube.get(secrets_path(namespace), limit="1", labelSelector=SELECTOR))["items"]:
            return False
    return True
