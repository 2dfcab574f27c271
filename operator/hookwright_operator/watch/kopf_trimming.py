"""Storages of kopf that keep nothing: Hookwright does not need them, and they cost memory for each object."""

from typing import Any

import kopf
from kopf._core.reactor.inventory import ResourceMemories, ResourceMemory


class NoDiffBase(kopf.DiffBaseStorage):
    """A diff base that compares nothing.

    kopf prepares data for change handlers in a third of its time, and this operator has no such handlers.
    """

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Return nothing to compare."""
        return {}

    def fetch(self, **_: Any) -> None:
        """Return no earlier version."""

    def store(self, **_: Any) -> None:
        """Store nothing."""


class NoProgress(kopf.ProgressStorage):
    """A progress storage that never has a handler to continue."""

    def fetch(self, **_: Any) -> None:
        """Return no progress."""

    def store(self, **_: Any) -> None:
        """Store no progress."""

    def purge(self, **_: Any) -> None:
        """Remove no progress."""

    def touch(self, **_: Any) -> None:
        """Write nothing that would wake kopf."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Return the essence without a change."""
        return essence


class Forgetful(ResourceMemories):
    """Memories that keep nothing of any object: kopf's 3 KiB each serve handlers that this operator does not have."""

    async def recall(self, *args: Any, **options: Any) -> ResourceMemory:
        """Return a memory that is not stored."""
        return await super().recall(*args, **{**options, "ephemeral": True})
