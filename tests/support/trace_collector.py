"""A collector of traces: accepts OTLP over HTTP as real ones do, and keeps the spans."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from support.cluster_actions import receiving

from hookwright_dev.receiver import Received

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Span:
    """One span as received.

    Attributes:
        parent: id of its parent, empty if it has none.
        resource: attributes of the process.
        error: the text of its status, None if the status is no error.
        text: the whole span as protobuf prints it.
    """

    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Value]
    resource: dict[str, Value]
    seconds: float
    error: str | None
    text: str = field(repr=False)


@dataclass(slots=True)
class Collector:
    """Received spans.

    Attributes:
        url: value for HOOKWRIGHT_TRACES.
        paths: of the requests.
        headers: of the last request, by lowercase name.
    """

    url: str
    spans: list[Span] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)

    def named(self, name: str, **attributes: Value) -> list[Span]:
        """Return the spans of a name with these attributes, ``_`` in their names for a dot, below ``hookwright.``."""
        expected = {f"hookwright.{key.replace('_', '.')}": value for key, value in attributes.items()}.items()
        return [span for span in tuple(self.spans) if span.name == name and expected <= span.attributes.items()]

    def take(self, body: bytes) -> None:
        """Keep the spans of a request."""
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _attributes(of_resource.resource.attributes)
            for of_scope in of_resource.scope_spans:
                self.spans += [_span(span, resource) for span in of_scope.spans]


def _span(span: Any, resource: dict[str, Value]) -> Span:
    return Span(
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        attributes=_attributes(span.attributes),
        resource=resource,
        seconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
        error=span.status.message if span.status.code == span.status.STATUS_CODE_ERROR else None,
        text=str(span),
    )


def _attributes(given: Any) -> dict[str, Value]:
    return {pair.key: _value(pair.value) for pair in given if isinstance(pair, KeyValue)}


def _value(value: AnyValue) -> Value:
    kind = value.WhichOneof("value")
    assert kind is not None
    content: Value = getattr(value, kind)
    return content


@contextmanager
def collecting() -> Iterator[Collector]:
    """Collect on loopback while the block runs."""

    def answer(request: Received) -> web.Response:
        collector.headers = {name.lower(): value for name, value in request.headers.items()}
        collector.paths.append(request.target)
        collector.take(request.body)
        return web.Response(content_type="application/x-protobuf")

    with receiving(answer) as receiver:
        collector = Collector(receiver.url.rstrip("/"))
        yield collector
