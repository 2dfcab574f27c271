"""Generated databases have the contents that the benchmark requires."""

import sqlite3
from contextlib import closing
from pathlib import Path

from hookwright_dev.bench.filling import (
    delivery_id,
    filled_sqlite,
    pending_of,
    producer_id,
)
from hookwright_operator.ids import id_digest

ROWS = 20_000


def test_a_filled_database_has_old_deliveries_of_every_state_and_its_counters_agree(tmp_path: Path) -> None:
    """Each delivery has its event, each ended one has its attempt, and no index is missing."""
    with filled_sqlite(tmp_path, ROWS) as database:
        path = database.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path)) as connection:
            states = dict(connection.execute("SELECT state, count(*) FROM deliveries GROUP BY state").fetchall())
            rows = connection.execute("SELECT sum(accepted - delivered - failed), sum(delivered) FROM counters")
            assert rows.fetchone() == (pending_of(ROWS), states["delivered"])
            result = connection.execute(
                "SELECT count(*) FROM deliveries WHERE (ended_ms IS NULL) != (state = 'pending')"
            )
            assert result.fetchone() == (0,)
            answer = connection.execute(
                "SELECT count(*), min(length(body)) FROM deliveries JOIN events ON events.id = event_id"
            )
            assert answer.fetchone() == (ROWS, 315)
            attempts = connection.execute(
                "SELECT count(*) FROM attempts JOIN deliveries ON deliveries.id = delivery_id"
            )
            assert attempts.fetchone() == (ROWS - pending_of(ROWS),)
            indexes = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
            ids = connection.execute("SELECT id, event_id FROM deliveries ORDER BY id").fetchall()
            digests = "SELECT message_id_digest, event_id_digest FROM events ORDER BY id LIMIT 1"
            assert connection.execute(digests).fetchone() == (id_digest("acme", producer_id(1)),) * 2
            assert ids == [(name, f"msg_{name[4:]}") for name in map(delivery_id, range(1, ROWS + 1))]
    assert states["pending"] == pending_of(ROWS)
    assert 0 < states["failed"] < states["delivered"]
    assert {"deliveries_to_claim", "deliveries_log", "deliveries_done_by_age", "event_ids_by_age"} <= indexes
    assert list(tmp_path.iterdir()) == []
