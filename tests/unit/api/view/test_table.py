"""A table never replaces a newer state by an older one, whichever source is first."""

import asyncio
from typing import Any

import pytest

from hookwright_api.view.table import _MOST_GONE, Table
from hookwright_api.view.table_records import KeyRecord, ProjectRecord


def project(name: str = "a", version: int = 1, uid: str = "u1", **meta: Any) -> dict[str, Any]:
    """Return a Project as the API server writes it."""
    return {
        "metadata": {"namespace": "acme", "name": name, "uid": uid, "resourceVersion": str(version), **meta},
        "spec": {"displayName": f"v{version}"},
    }


@pytest.fixture
def table() -> Table[ProjectRecord]:
    """Return an empty table of projects."""
    return Table("Project", ProjectRecord.of, {"uid": lambda record: {record.identity.uid}})


def shown(table: Table[ProjectRecord], name: str = "a") -> str | None:
    """Return the object that the table has under a name."""
    record = table.get("acme", name)
    return record.display_name if record else None


def test_an_older_state_does_not_replace_a_newer_one(table: Table[ProjectRecord]) -> None:
    """The watch shows a state that a write has already replaced."""
    table.put(project(version=5))
    table.put(project(version=3))
    assert shown(table) == "v5"


def test_what_this_process_deleted_does_not_come_back_from_the_watch(table: Table[ProjectRecord]) -> None:
    """A late event of the deleted object changes nothing; a new object of the same name is shown."""
    record = table.put(project(version=5))
    assert record is not None
    table.forget(record)
    table.put(project(version=6))
    assert shown(table) is None
    table.remove(project(version=7))
    table.put(project(version=8, uid="u2"))
    assert shown(table) == "v8"


def test_a_deletion_that_the_watch_reports_first_hides_a_late_answer(table: Table[ProjectRecord]) -> None:
    """The answer of a write before the deletion arrives after it."""
    record = table.put(project(version=5))
    assert record is not None
    table.remove(project(version=7))
    table.forget(record)
    assert table.put(project(version=6)) is None


def test_a_deletion_leaves_a_successor_of_the_same_name(table: Table[ProjectRecord]) -> None:
    """The watch reports the deletion and the next object before the API server answers the DELETE."""
    record = table.put(project(version=5))
    assert record is not None
    table.remove(project(version=6))
    table.put(project(version=7, uid="u2"))
    table.forget(record)
    assert shown(table) == "v7"


def test_deletions_without_an_event_of_the_watch_are_bounded(table: Table[ProjectRecord]) -> None:
    """The oldest ones are forgotten; a late event of the others changes nothing."""
    deleted_scene = [project(f"p{number}", uid=f"u{number}") for number in range(_MOST_GONE + 2)]
    for item in deleted_scene:
        record = table.put(item)
        assert record is not None
        table.forget(record)
    assert len(table._gone) == _MOST_GONE
    assert [table.put(item) is None for item in (*deleted_scene[:3], deleted_scene[-1])] == [False, False, True, True]


def test_a_list_forgets_the_deletions_of_objects_that_are_not_in_it(table: Table[ProjectRecord]) -> None:
    """An object that is still in the list stays hidden."""
    for uid in ("u1", "u2"):
        record = table.put(project(uid, uid=uid))
        assert record is not None
        table.forget(record)
    table.replace([project("u2", uid="u2")], 10)
    assert list(table._gone) == ["u2"]
    assert shown(table, "u2") is None


def test_the_deletion_of_an_earlier_object_leaves_its_successor_alone(table: Table[ProjectRecord]) -> None:
    """The DELETED event of the first object arrives after the second was written."""
    table.put(project(version=9, uid="u2"))
    table.remove(project(version=8, uid="u1"))
    assert shown(table) == "v9"


def test_an_object_in_deletion_is_gone_for_callers(table: Table[ProjectRecord]) -> None:
    """An object that only finalizers keep is not shown."""
    table.put(project(version=1))
    table.put(project(version=2, deletionTimestamp="2026-01-01T00:00:00Z"))
    assert shown(table) is None
    assert table.find("uid", "u1") == []


def test_a_list_takes_away_what_is_not_in_it_but_nothing_newer(table: Table[ProjectRecord]) -> None:
    """A list removes objects deleted during the gap of a watch; objects written after the list stay."""
    table.put(project("old", 3, "u1"))
    table.put(project("written", 20, "u2"))
    table.replace([project("listed", 7, "u3")], 10)
    assert [shown(table, name) for name in ("old", "written", "listed")] == [None, "v20", "v7"]


def test_a_list_of_one_namespace_leaves_the_others_alone(table: Table[ProjectRecord]) -> None:
    """With HOOKWRIGHT_WATCH_NAMESPACES each namespace is listed separately."""
    table.put(project("a", 1))
    table.replace([], 10, namespace="other")
    assert shown(table) == "v1"
    table.replace([], 10, namespace="acme")
    assert shown(table) is None


def test_an_index_follows_every_change() -> None:
    """A handed over key gets its id only later."""
    keys: Table[KeyRecord] = Table("ApiKey", KeyRecord.of, {"key_id": lambda key: {key.key_id}})
    document: dict[str, Any] = {
        "metadata": {"namespace": "acme", "name": "ci", "uid": "u", "resourceVersion": "1"},
        "spec": {"projectRef": {"name": "billing"}, "handover": {"secretName": "s"}},
    }
    keys.put(document)
    assert len(keys.find("key_id", "")) == 1
    document = {**document, "status": {"keyId": "k1", "digest": "sha256:" + "0" * 64}}
    document["metadata"] = {**document["metadata"], "resourceVersion": "2"}
    keys.put(document)
    assert keys.find("key_id", "") == []
    assert [key.identity.name for key in keys.find("key_id", "k1")] == ["ci"]
    keys.remove(document)
    assert keys.find("key_id", "k1") == []


def test_the_order_of_an_index_is_current_after_each_change() -> None:
    """The list is kept between reads, and a caller that changes its own list changes no other."""
    projects: Table[ProjectRecord] = Table(
        "Project", ProjectRecord.of, {"organization": lambda one: {one.identity.namespace}}
    )

    def names() -> list[str]:
        return [one.identity.name for one in projects.find("organization", "acme")]

    projects.put(project("b", 1, "u1"))
    assert names() == ["b"]
    projects.put(project("a", 2, "u2"))
    assert names() == ["a", "b"]
    projects.find("organization", "acme").clear()
    assert names() == ["a", "b"]
    projects.put(project("b", 3, "u1", deletionTimestamp="2026-01-31T12:00:00Z"))
    assert names() == ["a"]


def test_an_unreadable_object_is_as_good_as_absent(table: Table[ProjectRecord]) -> None:
    """An unreadable object neither stops the watch nor keeps an earlier state."""
    table.put(project(version=1))
    unreadable = project(version=2)
    table.put({**unreadable, "metadata": {**unreadable["metadata"], "creationTimestamp": "yesterday"}})
    assert shown(table) is None
    table.put(project(version=3))
    assert shown(table) == "v3"


async def test_a_waiter_is_told_of_the_change_it_waits_for_and_gives_up_in_time(table: Table[ProjectRecord]) -> None:
    """A waiter needs no polling, and its wait is bounded."""
    waiting = asyncio.create_task(
        table.wait("acme", "a", lambda record: record is not None and record.display_name == "v2", seconds=5)
    )
    await asyncio.sleep(0)
    table.put(project(version=1))
    await asyncio.sleep(0)
    assert not waiting.done()
    table.put(project(version=2))
    record = await waiting
    assert record is not None
    with pytest.raises(TimeoutError):
        await table.wait("acme", "b", lambda record: record is not None, seconds=0.01)
