"""The loop that writes when keys were last used."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from support.polling import until

from hookwright_api.key_usage import KeyUsage
from hookwright_api.view.table import Table
from hookwright_api.view.table_records import KeyRecord
from hookwright_runtime.kubernetes import KubernetesClient


class FaultyOnce:
    """A client whose first write fails in an unexpected way."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def apply(self, _path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the object that was written."""
        self.names.append(body["metadata"]["name"])
        if len(self.names) == 1:
            raise ValueError("an unexpected fault")
        return body


async def test_an_unexpected_fault_of_one_write_does_not_end_the_loop() -> None:
    """Later keys are written, by the same loop."""
    kube, put = FaultyOnce(), list[Any]()
    usage = KeyUsage(
        cast("KubernetesClient", kube),
        cast("Table[KeyRecord]", SimpleNamespace(put=put.append)),
        interval=timedelta(0),
        now=lambda: datetime(2026, 1, 31, tzinfo=UTC),
    )
    loop = asyncio.create_task(usage.run())
    for name in ("first", "second"):
        usage.note(
            cast(
                "KeyRecord",
                SimpleNamespace(last_used_at=None, identity=SimpleNamespace(name=name, uid=name, namespace="acme")),
            )
        )
    await until(lambda: len(put) == 1)
    assert kube.names == ["first", "second"]
    assert not loop.done()
    loop.cancel()
