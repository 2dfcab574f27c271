"""The interface between intake and delivery: acceptance, tests of endpoints, and metrics without names."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from support.attempts import guarded, send
from support.dispatcher import Engine, Plan, locked, open_store, subscriber
from support.receivers import answers, certificate, serve

from hookwright_dev.receiver import Receiver, verdict
from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.intake.parsing import parse_test
from hookwright_operator.services.endpoint_test import EndpointTester
from hookwright_operator.store.records import State
from hookwright_operator.store.sql import read
from hookwright_operator.store.store import Store
from hookwright_runtime.errors import StoreUnavailable

SYNTHETIC = parse_test(b"", "test_1")


@pytest.fixture
async def store(database: Path) -> AsyncIterator[Store]:
    """Yield an open store."""
    open_replica = await open_store(database, Plan(), patience=0.2)
    yield open_replica
    await open_replica.close()


async def test_a_test_event_goes_through_the_same_guard_as_every_delivery(receiver: Receiver, store: Store) -> None:
    """A test event cannot reach addresses that the guard refuses."""
    async with guarded(Guard([])) as strict:
        tester = EndpointTester(strict, store, time.time)
        outcome, _ = await tester.test(subscriber("orders", receiver.url), SYNTHETIC)
    assert outcome.error.startswith("address refused")
    assert not receiver.received


async def test_a_test_event_is_a_signed_delivered_event_and_is_in_the_log_only(
    receiver: Receiver, sender: Sender, store: Store
) -> None:
    """A test event arrives as any delivery does, with a new message id each time, and no counter changes."""
    tester = EndpointTester(sender, store, time.time)
    endpoint = subscriber("orders", receiver.url)
    results = [await tester.test(endpoint, SYNTHETIC) for _ in range(2)]
    assert [outcome.status_code for outcome, _ in results] == [200, 200]
    for request in receiver.received:
        assert request.type == "delivered"
        assert verdict(request.headers, request.body, endpoint.secrets) == ""
    records, _ = await store.read_log(read.log, "orders")
    assert [record.id for record in records] == [result for _, result in reversed(results)]
    assert {request.id for request in receiver.received} == {record.event_id for record in records}
    assert all(record.is_test and record.state is State.DELIVERED for record in records)
    assert await store.read(read.counts) == {}


async def test_a_test_of_a_cloudevents_endpoint_has_the_chosen_type(
    receiver: Receiver, sender: Sender, store: Store
) -> None:
    """The ce- headers are those of a delivery of the type."""
    endpoint = replace(subscriber("orders", receiver.url), format="cloudevents")
    await EndpointTester(sender, store, time.time).test(endpoint, parse_test(b'{"type": "wa_read"}', "test_1"))
    [request] = receiver.received
    assert request.headers["ce-type"] == "dev.hookwright.wa_read"


async def test_a_test_answers_while_the_store_cannot_write(
    receiver: Receiver, sender: Sender, store: Store, database: Path
) -> None:
    """The result comes without an id, and the log has no row."""
    async with locked(database):
        outcome, record = await EndpointTester(sender, store, time.time).test(
            subscriber("orders", receiver.url), SYNTHETIC
        )
    assert (outcome.status_code, record) == (200, None)
    assert await store.read_log(read.log, "orders") == ([], None)


async def test_one_tls_context_serves_all_attempts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Reading the trust store takes tens of milliseconds, so it is read once for all endpoints and attempts."""
    count = 0
    create = ssl.create_default_context

    def counted() -> ssl.SSLContext:
        nonlocal count
        count += 1
        return create()

    monkeypatch.setattr(ssl, "create_default_context", counted)
    async with (
        guarded(Guard(["127.0.0.0/8"])) as context,
        serve(answers(b"HTTP/1.1 200 OK\r\n\r\n"), tls=certificate(tmp_path)) as server,
    ):
        for number in range(3):
            endpoint = subscriber(f"endpoint-{number}", server.url)
            outcome = await send(context, endpoint)
            assert "TLS" in outcome.error
    assert count == 1


async def test_no_metric_tells_a_url_or_an_id(receiver: Receiver, database: Path) -> None:
    """Labels are bounded: no name, address or id appears in the metrics."""
    engine = await Engine.start(database)
    engine.registry.put(replace(subscriber("uid-17", receiver.url), name="very-private"))
    await engine.post(event_id="producers-own-id")
    await engine.ended("uid-17", 1)
    [record] = await engine.log("uid-17")
    metrics_text = generate_latest().decode()
    assert 'hookwright_deliveries_total{outcome="delivered"}' in metrics_text
    for text in ("uid-17", "very-private", receiver.url, "127.0.0.1", record.id, record.event_id, "producers-own-id"):
        assert text not in metrics_text
    await engine.stop()


async def test_events_that_are_committed_are_told_so_even_if_a_deleted_endpoint_cannot_be_tidied(
    receiver: Receiver, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a 503 after the commit the producer would send delivered events again."""
    engine = await Engine.start(database)

    async def away(_uid: str, _reason: str) -> int:
        raise StoreUnavailable("database is locked")

    monkeypatch.setattr(engine.store, "discard", away)
    engine.registry.put(subscriber("orders", receiver.url))
    posting = asyncio.create_task(engine.post())
    await asyncio.sleep(0)
    engine.registry.remove("orders")
    assert (await posting).accepted == 1
    await engine.stop()
