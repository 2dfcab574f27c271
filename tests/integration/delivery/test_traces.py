"""Traces from acceptance to attempts, sent to a real collector; and none if they are disabled."""

import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from prometheus_client.openmetrics.exposition import generate_latest
from support.dispatcher import Engine, Plan, open_store, subscriber
from support.polling import until
from support.trace_collector import Collector, collecting

from hookwright_dev.receiver import Receiver
from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.services.events import AcceptResult, IncomingEvent
from hookwright_operator.tracing import Traces, record_acceptance, traceparent_of
from hookwright_runtime.problems import ProblemError

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Yield a real collector."""
    with collecting() as collector:
        yield collector


@pytest.fixture
async def traces(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Traces]:
    """Yield traces to the collector, exported soon after they end."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    traces = Traces.start(collector.url)
    yield traces
    await traces.stop()


@dataclass
class Traced:
    """An engine whose sender traces."""

    engine: Engine
    traces: Traces

    async def post(self, headers: dict[str, str], *, body: bytes = b"{}") -> AcceptResult:
        """Accept one event as the intake does."""
        with self.traces.accepting(
            headers, began_ns=time.time_ns(), namespace="acme", project="billing", request_id="request-1"
        ) as span:
            event = IncomingEvent(None, "delivered", "m-1", body)
            result = await self.engine.events.accept("acme", "billing", [event], trace=traceparent_of(span))
            record_acceptance(span, events=result.accepted, duplicates=result.duplicates, deliveries=result.deliveries)
        return result


async def start(database: Path, traces: Traces | None, *, to_receivers: bool = False) -> tuple[Engine, Sender]:
    """Start an engine whose sender traces."""
    sender = Sender(
        Guard(["127.0.0.0/8"]),
        user_agent="Hookwright/test",
        allow_http=True,
        traces=traces,
        traces_to_receivers=to_receivers,
    )
    await sender.start()
    return await Engine.start(database, Plan(schedule="100ms,100ms"), sender=sender), sender


@pytest.fixture
async def traced(database: Path, traces: Traces) -> AsyncIterator[Traced]:
    """Yield an engine that traces, and sends no trace headers to receivers."""
    engine, sender = await start(database, traces)
    yield Traced(engine, traces)
    await engine.stop()
    await sender.close()


async def test_an_event_is_one_trace_from_its_producer_to_its_attempts(
    traced: Traced, collector: Collector, receiver: Receiver
) -> None:
    """The acceptance continues the producer's trace, each attempt is a child, and the failed one has its error."""
    receiver.answer = lambda received: 500 if received.attempt == 1 else 204
    traced.engine.registry.put(subscriber("orders", receiver.url))
    await traced.post(SAMPLED)
    await until(lambda: len(collector.named("attempt")) == 2 and len(collector.named("accept")) == 1)
    (accept,) = collector.named("accept")
    first, second = sorted(collector.named("attempt"), key=lambda span: span.attributes["hookwright.attempt"])
    assert {accept.trace, first.trace, second.trace} == {TRACE}
    assert (accept.parent, first.parent, second.parent) == (PARENT, accept.id, accept.id)
    assert accept.attributes["hookwright.request.id"] == "request-1"
    assert accept.attributes["hookwright.deliveries"] == 1
    assert first.attributes["http.response.status_code"] == 500
    assert first.error == "HTTP 500 Internal Server Error"
    assert second.attributes["http.response.status_code"] == 204
    assert second.error is None
    (record,) = await traced.engine.log("orders")
    assert first.attributes["hookwright.delivery.id"] == second.attributes["hookwright.delivery.id"] == record.id
    assert first.attributes["hookwright.event.id"] == record.event_id
    assert accept.resource["service.name"] == "hookwright-operator"
    assert set(collector.paths) == {"/v1/traces"}


async def test_a_span_has_nothing_of_a_url_but_its_host_and_no_header_or_body(
    traced: Traced, collector: Collector, receiver: Receiver
) -> None:
    """Paths and queries of webhooks contain tokens, and so do headers."""
    url = f"{receiver.url}/services/path-token?key=query-token"
    traced.engine.registry.put(subscriber("orders", url))
    await traced.post(SAMPLED, body=b'{"secret":"body-token"}')
    await until(lambda: len(collector.spans) == 2)
    (attempt,) = collector.named("attempt")
    assert attempt.attributes["server.address"] == "127.0.0.1"
    assert attempt.attributes["server.port"] == receiver.port
    message = "".join(span.text for span in collector.spans)
    assert "orders" in message
    for secret in ("path-token", "query-token", "body-token", "whsec_", "services"):
        assert secret not in message


async def test_what_is_not_sampled_leaves_nothing_behind(
    traced: Traced, collector: Collector, receiver: Receiver
) -> None:
    """If a producer does not sample its trace, there are no spans here, and the store keeps no trace."""
    traced.engine.registry.put(subscriber("orders", receiver.url))
    await traced.post({"traceparent": f"00-{TRACE}-{PARENT}-00"})
    await traced.engine.ended("orders", 1)
    await traced.traces.stop()
    assert collector.spans == []


async def test_a_trace_begins_here_where_the_producer_has_none_or_a_broken_one(
    traced: Traced, collector: Collector, receiver: Receiver
) -> None:
    """Each event then gets a root span with a new trace."""
    traced.engine.registry.put(subscriber("orders", receiver.url))
    for headers in ({}, {"traceparent": "nonsense"}, {"traceparent": f"00-{'0' * 32}-{PARENT}-01"}):
        await traced.post(headers)
    await until(lambda: len(collector.named("accept")) == 3)
    assert {span.parent for span in collector.named("accept")} == {""}
    assert len({span.trace for span in collector.named("accept")}) == 3


async def test_a_wrong_tracestate_of_a_caller_is_not_logged(traced: Traced, caplog: pytest.LogCaptureFixture) -> None:
    """A caller must not write lines of 8 KiB into the log."""
    await traced.post({**SAMPLED, "tracestate": "wrong " * 1000})
    assert "wrong" not in caplog.text


async def test_an_attempt_after_a_crash_belongs_to_the_same_trace(
    database: Path, traces: Traces, collector: Collector, receiver: Receiver
) -> None:
    """After a restart, an event that another process accepted continues its trace."""
    store = await open_store(database, Plan())
    before = await Engine.start(store, Plan(schedule="1ms"))
    receiver.answer = lambda _: 500
    before.registry.put(subscriber("orders", receiver.url, suspend=True))
    await Traced(before, traces).post(SAMPLED)
    await before.stop()
    after, sender = await start(database, traces)
    receiver.answer = lambda _: 200
    after.registry.put(subscriber("orders", receiver.url))
    await until(lambda: len(collector.named("attempt")) == 1 and len(collector.named("accept")) == 1)
    (attempt,), (accept,) = collector.named("attempt"), collector.named("accept")
    assert (attempt.trace, attempt.parent) == (TRACE, accept.id)
    await after.stop()
    await sender.close()


@pytest.mark.parametrize("to_receivers", [False, True])
async def test_receivers_are_told_of_a_trace_only_where_the_setting_says_so(
    database: Path, traces: Traces, collector: Collector, receiver: Receiver, *, to_receivers: bool
) -> None:
    """The header then names the attempt's own span, so that the receiver's spans become its children."""
    engine, sender = await start(database, traces, to_receivers=to_receivers)
    engine.registry.put(subscriber("orders", receiver.url))
    await Traced(engine, traces).post({**SAMPLED, "tracestate": "vendor=private"})
    await until(lambda: len(collector.named("attempt")) == 1)
    (attempt,) = collector.named("attempt")
    (request,) = receiver.received
    text = request.headers.get("traceparent")
    assert text == (f"00-{TRACE}-{attempt.id}-01" if to_receivers else None)
    assert "tracestate" not in request.headers
    await engine.stop()
    await sender.close()


async def test_without_traces_an_event_that_has_one_is_delivered_all_the_same(
    database: Path, traces: Traces, collector: Collector, receiver: Receiver
) -> None:
    """An event whose trace is stored is delivered after a restart without traces."""
    engine, sender = await start(database, None)
    engine.registry.put(subscriber("orders", receiver.url))
    await Traced(engine, traces).post(SAMPLED)
    await engine.ended("orders", 1)
    await traces.stop()
    assert [span.name for span in collector.spans] == ["accept"]
    await engine.stop()
    await sender.close()


async def test_a_request_that_is_refused_has_its_status_and_not_its_words(traces: Traces, collector: Collector) -> None:
    """The error text may quote the request; a refusal does not mark the span as an error, a fault does."""
    for error in (ProblemError(422, "said whsec_abc"), ZeroDivisionError("said whsec_abc")):
        with (
            pytest.raises(type(error)),
            traces.accepting(SAMPLED, began_ns=time.time_ns(), namespace="acme", project="billing", request_id="r"),
        ):
            raise error
    await until(lambda: len(collector.spans) == 2)
    span, broken = collector.spans
    assert (span.attributes["http.response.status_code"], span.error) == (422, None)
    assert (broken.attributes["error.type"], broken.error) == ("ZeroDivisionError", "")
    assert "whsec" not in span.text + broken.text


async def test_the_sdk_s_own_variables_hold(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's variables set the service name, the collector's headers, and a sampler that drops every trace."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "webhooks")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc")
    traces = Traces.start(collector.url + "/")
    with traces.accepting({}, began_ns=time.time_ns(), namespace="acme", project="billing", request_id="r") as span:
        assert traceparent_of(span)
    await traces.stop()
    (request,) = collector.spans
    assert (request.resource["service.name"], request.resource["deployment.environment.name"]) == ("webhooks", "test")
    assert collector.headers["authorization"] == "Bearer abc"
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    off = Traces.start(collector.url)
    with off.accepting(
        SAMPLED, began_ns=time.time_ns(), namespace="acme", project="billing", request_id="r"
    ) as context:
        assert traceparent_of(context) is None
    await off.stop()
    assert len(collector.spans) == 1


async def test_the_latency_has_the_trace_as_its_exemplar(traced: Traced, receiver: Receiver) -> None:
    """In OpenMetrics only; Grafana then links a slow bucket to a trace."""
    traced.engine.registry.put(subscriber("orders", receiver.url))
    await traced.post(SAMPLED)
    await traced.engine.ended("orders", 1)
    text = generate_latest(REGISTRY).decode()  # type: ignore[no-untyped-call]
    assert re.search(rf'hookwright_delivery_latency_seconds_bucket{{[^}}]*}} .*# {{trace_id="{TRACE}"}}', text)


async def test_a_collector_that_is_away_costs_no_delivery(
    database: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """Spans are dropped, and the log says so."""
    traces = Traces.start("http://127.0.0.1:1")
    engine, sender = await start(database, traces)
    engine.registry.put(subscriber("orders", receiver.url))
    await Traced(engine, traces).post(SAMPLED)
    await engine.ended("orders", 1)
    await engine.stop()
    await sender.close()
    await traces.stop()
    assert any(record.name.startswith("opentelemetry") for record in caplog.records)


def test_an_operator_without_traces_loads_neither_opentelemetry_nor_the_client_of_the_command_line() -> None:
    """The SDK takes a quarter of a second and 15 MB, the client the same time and 9 MiB."""
    absent = ["opentelemetry", "kubernetes", "requests"]
    code = f"import sys, hookwright_operator.process; print([name for name in {absent} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.strip() == "[]"
