"""One event in the log: its acceptance, each failed attempt, and its delivery."""

import json
from typing import Any

from integration.delivery.conftest import Start
from structlog.contextvars import bound_contextvars
from structlog.testing import capture_logs
from support.dispatcher import Engine, Plan, subscriber

from hookwright_dev.receiver import Received, Receiver
from hookwright_operator.services.acceptance_log import LINE
from hookwright_operator.services.events import IncomingEvent

CLOUD = '{"id":"c-1","source":"/mailer","type":"delivered"}'


def having(logs: list[Any], event: str) -> list[dict[str, Any]]:
    """Return the lines with this event."""
    return [line for line in logs if line["event"] == event]


async def accept(engine: Engine, *events: IncomingEvent) -> list[str]:
    """Accept events in one request, and return their ids."""
    return list((await engine.events.accept("acme", "billing", events)).event_ids)


def plain(name: str, **fields: object) -> IncomingEvent:
    """Return a plain event with a producer's id."""
    body = {"type": "delivered", "messageId": "m", "id": name, **fields}
    return IncomingEvent(name, "delivered", "m", json.dumps(body).encode(), 1)


async def test_one_event_is_found_by_its_producers_id_from_acceptance_to_delivery(
    start: Start, receiver: Receiver
) -> None:
    """Every line has the producer's id and the event's id; the lines of attempts have delivery and endpoint too."""
    engine = await start()
    engine.registry.put(subscriber("orders", receiver.url))
    receiver.answer = lambda _: 503 if len(receiver.received) < 3 else 200
    with capture_logs() as logs:
        with bound_contextvars(request_id="r-1"):
            (event_id,) = await accept(engine, plain("evt-1"))
        await engine.ended("orders", 1)
        engine.events.acceptance_log.flush()
    (record,) = await engine.log("orders")
    (acceptance,) = having(logs, "events accepted")
    assert acceptance["events"] == [
        {"event_id": event_id, "producer_id": "evt-1", "project": "billing", "type": "delivered", "request_id": "r-1"}
    ]
    assert (acceptance["namespace"], acceptance["log_level"]) == ("acme", "info")
    first, second = having(logs, "attempt failed")
    (last,) = having(logs, "attempt delivered")
    for attempts, (line, level) in enumerate(((first, "info"), (second, "info"), (last, "debug")), start=1):
        assert line["log_level"] == level
        assert {
            "producer_id": "evt-1",
            "event_id": event_id,
            "delivery": record.id,
            "namespace": "acme",
            "project": "billing",
            "endpoint": "orders",
            "attempts": attempts,
            "status": 200 if attempts == 3 else 503,
        }.items() <= line.items()
    assert first["error"] == "HTTP 503 Service Unavailable"
    assert first["retry_at"].endswith("Z")
    assert "error" not in last
    assert not having(logs, "delivery failed")


async def test_a_failed_delivery_has_one_warning_and_no_further_line_for_its_last_attempt(
    start: Start, receiver: Receiver
) -> None:
    """A CloudEvent has the id and the source that its producer gave it, also if its data has an id."""
    engine = await start(Plan(schedule="1ms"))
    engine.registry.put(subscriber("orders", receiver.url))
    receiver.answer = lambda _: 500
    cloud = IncomingEvent("/mailer\nc-1", "delivered", "m", b'{"id":"of the data"}', attributes=CLOUD)
    with capture_logs() as logs:
        await accept(engine, cloud)
        await engine.ended("orders", 1)
        engine.events.acceptance_log.flush()
    assert [len(having(logs, event)) for event in ("attempt failed", "delivery failed")] == [1, 1]
    for line in (*having(logs, "delivery failed"), *having(logs, "events accepted")[0]["events"]):
        assert (line["producer_id"], line["source"]) == ("c-1", "/mailer")
    assert having(logs, "delivery failed")[0]["log_level"] == "warning"


async def test_a_tenant_cannot_choose_the_size_and_the_cost_of_a_line(start: Start, receiver: Receiver) -> None:
    """Long ids are cut, and a large body is not read for its id."""
    engine = await start(Plan(schedule="1ms"))
    engine.registry.put(subscriber("orders", receiver.url))
    receiver.answer = lambda _: 500
    long = "x" * 256
    cloud = json.dumps({"id": long, "source": long, "type": "delivered"})
    large = json.dumps({"id": "evt-1", "padding": "x" * 8192}).encode()
    with capture_logs() as logs:
        await accept(engine, IncomingEvent(f"{long}\n{long}", "delivered", "m", b"{}", attributes=cloud))
        await engine.ended("orders", 1)
        await accept(engine, IncomingEvent("evt-1", "delivered", "m", large))
        await engine.ended("orders", 2)
        engine.events.acceptance_log.flush()
    cut = "x" * 100 + "…"
    of_cloud, of_large = having(logs, "delivery failed")
    acceptance = having(logs, "events accepted")[0]["events"][0]
    for line in (of_cloud, acceptance):
        assert (line["producer_id"], line["source"]) == (cut, cut)
    assert "producer_id" not in of_large


async def test_events_of_one_second_share_a_line_and_a_duplicate_names_the_first_event(start: Start) -> None:
    """A repetition is found by its producer's id as well."""
    engine = await start()
    with capture_logs() as logs:
        (first,) = await accept(engine, plain("evt-1"))
        await accept(engine, plain("evt-1"), plain("evt-2"), IncomingEvent(None, "delivered", "m", b"{}"))
        engine.events.acceptance_log.flush()
    (line,) = having(logs, "events accepted")
    assert (line["accepted"], line["duplicates"], line["deliveries"], line["unlisted"]) == (3, 1, 0, 0)
    assert [entry.get("producer_id") for entry in line["events"]] == ["evt-1", "evt-1", "evt-2", None]
    assert [entry.get("duplicate") for entry in line["events"]] == [None, True, None, None]
    assert line["events"][1]["event_id"] == first


async def test_a_large_request_is_listed_in_several_lines(start: Start) -> None:
    """A line stays below the 16 KiB at which container runtimes split it."""
    engine = await start()
    with capture_logs() as logs:
        await accept(engine, *[plain(f"evt-{number}") for number in range(2 * LINE + 1)])
        engine.events.acceptance_log.flush()
    lines = having(logs, "events accepted")
    assert [len(line["events"]) for line in lines] == [LINE, LINE, 1]
    assert [line.get("accepted") for line in lines] == [2 * LINE + 1, None, None]
    assert all(len(json.dumps(line)) < 16_384 for line in lines)


async def test_no_line_of_an_attempt_has_the_body_or_the_secret(start: Start, receiver: Receiver) -> None:
    """A line has the error, and neither what was sent nor what the receiver answered."""
    engine = await start(Plan(schedule="1ms"))
    endpoint = subscriber("orders", receiver.url)
    engine.registry.put(endpoint)

    def answer(_: Received) -> int:
        return 500

    receiver.answer = answer
    with capture_logs() as logs:
        await accept(engine, plain("evt-1", phone="+49 170 1234567"))
        await engine.ended("orders", 1)
        engine.events.acceptance_log.flush()
    text = json.dumps(logs, default=str)
    assert "evt-1" in text
    for secret in ("+49 170", receiver.url, *endpoint.secrets):
        assert secret not in text
