"""The success rates on the first page of the console."""

import asyncio
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from starlette.requests import Request

from hookwright_api.console.routes.projects import _statistics
from hookwright_api.console.visit import Visit
from hookwright_api.view.table_records import ProjectRecord
from hookwright_runtime.bounds import LOG_READS
from hookwright_runtime.places import Places

PROJECT: Final = SimpleNamespace(identity=SimpleNamespace(name="billing"))
"""A project, as far as its statistics need it."""


async def test_the_rates_of_a_full_page_leave_reads_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page with 25 projects does not get 429, and another reader of the organization does not either."""
    reads, projects = Places(LOG_READS), [cast("ProjectRecord", PROJECT)] * 25

    async def read(*_: Any, **__: Any) -> dict[str, Any]:
        with await reads.acquire("acme"):
            # Every request that the page sends at once arrives before the first read ends.
            for _turn in range(50):
                await asyncio.sleep(0)
        return {"buckets": []}

    monkeypatch.setattr(Visit, "call", read)
    lines, _ = await asyncio.gather(_statistics(Visit(Request({"type": "http"})), projects), read())
    assert len(lines) == 25
