"""Fan-outs to endpoints that are being deleted, on every engine."""

from sqlalchemy import Connection
from support.store_factories import event

from hookwright_operator.ids import delivery_id
from hookwright_operator.store.sql import prune, read
from hookwright_operator.store.store import Store


async def test_a_slice_discards_no_more_deliveries_than_it_writes(store: Store) -> None:
    """The deletion discards the other deliveries of the endpoint, so that each transaction stays small."""
    await store.accept([event("gone") for _ in range(10)])

    def begin_deletion(connection: Connection) -> int:
        return prune.discard(connection, "gone", "endpoint deleted", limit=4, slot=0, now=1)

    assert await store.transactions.write("discard", begin_deletion) == 4
    events = [event() for _ in range(5)]
    [fan_out] = (await store.fan_outs.accept(events, {events[0].type: ["gone", "orders"]})).fan_outs
    written = await store.fan_outs.write_slice(fan_out, [delivery_id() for _ in range(3)])
    assert written is not None
    assert (written.discarded, written.left, written.endpoint_uids) == (3, 7, frozenset())
    assert (await store.read(read.counts_of, "gone")).pending == 6
    assert await store.discard("gone", "endpoint deleted") == 6
