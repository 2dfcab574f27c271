"""The objects of one kind in memory, with indices; an older state never replaces a newer one.

Two sources update a table: the watch, and the answers to this process's own writes. So that a caller reads its own
writes, the newer state wins from either source, and a deleted object stays deleted.
"""

import asyncio
import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Generic, Protocol, TypeVar

import structlog

from hookwright_api.view.table_records import Identity
from hookwright_runtime.problems import FieldFault, invalid

log = structlog.get_logger(__name__)

Object = Mapping[str, Any]
Key = tuple[str, str]


class Record(Protocol):
    """The content of a table."""

    @property
    def identity(self) -> Identity:
        """The identity of the object."""


R = TypeVar("R", bound=Record)

_MOST_GONE: Final = 4096
"""Most deleted objects of which later watch events are ignored. The watch reports a deletion much sooner."""
_CURSOR: Final = re.compile(r"([0-9]{1,12})\.([a-z0-9.-]{1,253})")


def page_after(records: Sequence[R], cursor: str | None, limit: int | None) -> tuple[Sequence[R], str | None]:
    """Return a page of records that are in the order of `Table.find`, and the cursor of the next page.

    Args:
        records: all of them.
        cursor: as an earlier page returned it; None or empty for the first page.
        limit: the most records on the page; None for all.

    Raises:
        ProblemError: 422, no page returned this cursor.
    """
    start = 0
    if cursor:
        form = _CURSOR.fullmatch(cursor)
        if form is None:
            raise invalid(FieldFault("cursor", "must be the `next` of a page; omit it to begin with the oldest"))
        start = bisect_right(records, (int(form[1]), form[2]), key=_position)
    end = len(records) if limit is None else min(start + limit, len(records))
    if end == len(records):
        return records[start:], None
    seconds, name = _position(records[end - 1])
    return records[start:end], f"{seconds}.{name}"


def _position(record: Record) -> tuple[int, str]:
    identity = record.identity
    return int(identity.created.timestamp()), identity.name


class Table(Generic[R]):
    """Objects of one kind by namespace and name."""

    def __init__(
        self, kind: str, read: Callable[[Object], R], indices: Mapping[str, Callable[[R], set[Hashable]]] | None = None
    ) -> None:
        """Create an empty table.

        Args:
            kind: for the log.
            read: converts an object to a record; raises ValueError if it is invalid.
            indices: by name, the functions that return the index values of a record, each once.
        """
        self._kind = kind
        self._read = read
        self._indices = dict(indices or {})
        self._records: dict[Key, R] = {}
        # The records of each value, the oldest first.
        self._indexed: dict[tuple[str, Hashable], list[R]] = {}
        # The uids of objects that this process has deleted, the oldest deletion first.
        self._gone: dict[str, None] = {}
        # Set at the next change, and then replaced.
        self._change = asyncio.Event()

    def __len__(self) -> int:
        return len(self._records)

    def get(self, namespace: str, name: str) -> R | None:
        """Return an object that is not being deleted."""
        record = self._records.get((namespace, name))
        return None if record is None or record.identity.deleting else record

    def find(self, index: str, value: Hashable) -> list[R]:
        """Return the objects that an index has under a value, oldest first."""
        return self._indexed.get((index, value), []).copy()

    def put(self, resource: Object) -> R | None:
        """Store an object's state unless a newer one is known; return the current state."""
        meta = resource["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        record = self._records.get(key)
        is_outdated = record is not None and record.identity.version >= int(meta.get("resourceVersion") or 0)
        if not is_outdated and meta.get("uid") not in self._gone:
            self._set(key, self._record(resource))
        return self.get(*key)

    def remove(self, resource: Object) -> None:
        """Remove an object that the watch reports as deleted."""
        meta = resource["metadata"]
        self._gone.pop(meta.get("uid", ""), None)
        key = (meta.get("namespace", ""), meta["name"])
        record = self._records.get(key)
        if record is not None and record.identity.uid == meta.get("uid"):
            self._set(key, None)

    def forget(self, record: R) -> None:
        """Remove an object that this process has deleted, regardless of later watch events about it."""
        identity = record.identity
        # Also if the watch reported the deletion first: the answer of an earlier write may still arrive.
        self._gone[identity.uid] = None
        if len(self._gone) > _MOST_GONE:
            del self._gone[next(iter(self._gone))]
        present = self._records.get((identity.namespace, identity.name))
        if present is not None and present.identity.uid == identity.uid:
            self._set((identity.namespace, identity.name), None)

    def replace(self, resources: Iterable[Object], version: int, *, namespace: str | None = None) -> None:
        """Apply a whole list: an object that is missing in it is removed, unless it is newer than the list.

        Args:
            resources: the objects.
            version: the list's resourceVersion.
            namespace: the listed namespace; None for all.
        """
        keys, uids = set(), set()
        for resource in resources:
            self.put(resource)
            keys.add((resource["metadata"].get("namespace", ""), resource["metadata"]["name"]))
            uids.add(resource["metadata"].get("uid", ""))
        for key, record in list(self._records.items()):
            if namespace in (None, key[0]) and key not in keys and record.identity.version <= version:
                self._set(key, None)
        if namespace is None:
            self._gone = {uid: None for uid in self._gone if uid in uids}

    async def wait(self, namespace: str, name: str, until: Callable[[R | None], bool], *, seconds: float) -> R | None:
        """Return the object when ``until`` returns true for it; ``until`` gets None if there is no object.

        Raises:
            TimeoutError: that did not happen in time.
        """
        async with asyncio.timeout(seconds):
            while not until(record := self.get(namespace, name)):
                await self._change.wait()
        return record

    def _record(self, resource: Object) -> R | None:
        try:
            return self._read(resource)
        except (ValueError, KeyError) as error:
            # Log only the kind of the error, because its text may contain the content of a Secret.
            meta = resource["metadata"]
            log.warning(
                "object unreadable, skipping it",
                kind=self._kind,
                namespace=meta.get("namespace"),
                name=meta.get("name"),
                fault=type(error).__name__,
            )
            return None

    def _set(self, key: Key, record: R | None) -> None:
        present = self._records.pop(key, None)
        if present is not None and not present.identity.deleting:
            self._unindex(present)
        if record is not None:
            self._records[key] = record
            if not record.identity.deleting:
                for place in self._index_values(record):
                    insort(self._indexed.setdefault(place, []), record, key=_age_order)
        self._change.set()
        self._change = asyncio.Event()

    def _unindex(self, record: R) -> None:
        for place in self._index_values(record):
            records = self._indexed[place]
            del records[bisect_left(records, _age_order(record), key=_age_order)]
            if not records:
                del self._indexed[place]

    def _index_values(self, record: R) -> list[tuple[str, Hashable]]:
        return [(name, value) for name, values_of in self._indices.items() for value in values_of(record)]


def _age_order(record: Record) -> tuple[datetime, str, str]:
    return record.identity.created, record.identity.name, record.identity.namespace
