"""OpenTelemetry traces: one trace from the acceptance of events to every attempt to deliver them.

If traces are off, there is no `Traces` object and its users hold None. The store keeps the ``traceparent`` (W3C Trace
Context) of sampled events only. With it, attempts belong to the trace after a restart and in other replicas too. An
event without a traceparent creates no spans. A span has names and ids. It never has a secret, a body, or more of a URL
than its host, because paths and queries carry tokens.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Claimed
from hookwright_runtime.errors import SettingsError

if TYPE_CHECKING:
    # Imported only if traces are on, because the import needs a quarter of a second and 15 MB.
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

SERVICE: Final = "hookwright-operator"
_STOP_SECONDS: Final = 5.0


class Traces:
    """A factory of spans, which exports them in the background; the SDK's queue limits their number."""

    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry import trace  # noqa: PLC0415 - see above
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

        self._api = trace
        self._provider = provider
        self._tracer = provider.get_tracer("hookwright", version("hookwright"))
        self._context = TraceContextTextMapPropagator()

    @classmethod
    def start(cls, url: str) -> Self:
        """Trace to an OTLP/HTTP collector; the SDK's own variables (``OTEL_…``) configure the rest.

        Args:
            url: of the collector, without ``/v1/traces``.

        Raises:
            SettingsError: the SDK is not installed.
        """
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
            from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415
            from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
            from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        except ImportError as error:
            raise SettingsError(f"HOOKWRIGHT_TRACES needs {error.name}; install hookwright[traces]") from error
        # It would log the text of each wrong tracestate that a caller sends.
        logging.getLogger("opentelemetry.trace.span").setLevel(logging.ERROR)
        ours = Resource.create({"service.name": SERVICE, "service.version": version("hookwright")})
        # The user's environment may override the name.
        provider = TracerProvider(resource=ours.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{url.rstrip('/')}/v1/traces")))
        return cls(provider)

    async def stop(self) -> None:
        """Export the remaining spans, if the collector accepts them within seconds."""
        exporting = asyncio.get_running_loop().run_in_executor(None, self._provider.shutdown)
        await asyncio.wait([exporting], timeout=_STOP_SECONDS)

    @contextmanager
    def accepting(
        self, headers: Mapping[str, str], *, began_ns: int, namespace: str, project: str, request_id: str
    ) -> Iterator["Span"]:
        """Enter the span of a request with events, a child of its ``traceparent`` if it has one.

        Args:
            headers: of the request, by lowercase name.
            began_ns: arrival time, in nanoseconds since the epoch.
            namespace: of the project.
            project: name of the project.
            request_id: id of the request in the logs.
        """
        attributes = {
            "http.request.method": "POST",
            "http.route": "/v1alpha1/namespaces/{namespace}/projects/{project}/events",
            "hookwright.namespace": namespace,
            "hookwright.project": project,
            "hookwright.request.id": request_id,
        }
        span = self._tracer.start_span(
            "accept", self._context.extract(headers), self._api.SpanKind.SERVER, attributes, start_time=began_ns
        )
        try:
            yield span
        except BaseException as error:
            # The error's text is omitted because it may quote the request.
            status = getattr(error, "status", None)
            if isinstance(status, int) and 400 <= status < 500:
                span.set_attribute("http.response.status_code", status)
            else:
                self._fail(span, type(error).__name__)
            raise
        finally:
            span.end()

    @contextmanager
    def attempting(self, endpoint: Endpoint, delivery: Claimed, traceparent: str) -> Iterator["Span"]:
        """Enter the span of an attempt, a child of the acceptance whose ``traceparent`` is given."""
        scheme, host, port = _server(endpoint.url)
        attributes: dict[str, str | int] = {
            "http.request.method": "POST",
            "url.scheme": scheme,
            "server.address": host,
            "server.port": port,
            "hookwright.namespace": endpoint.namespace,
            "hookwright.project": endpoint.project,
            "hookwright.endpoint": endpoint.name,
            "hookwright.delivery.id": delivery.id,
            "hookwright.event.id": delivery.event_id,
            "hookwright.event.type": delivery.event_type,
            "hookwright.attempt": delivery.attempts + 1,
        }
        context = self._context.extract({"traceparent": traceparent})
        span = self._tracer.start_span("attempt", context, self._api.SpanKind.CLIENT, attributes)
        try:
            yield span
        except BaseException:
            self._fail(span, "cut short")
            raise
        finally:
            span.end()

    def record_outcome(self, span: "Span", status_code: int, error: str) -> None:
        """Record the HTTP status of an attempt, 0 without one, and its error in plain words, empty if it delivered."""
        if status_code:
            span.set_attribute("http.response.status_code", status_code)
        if error:
            self._fail(span, str(status_code or "no answer"), error)

    def _fail(self, span: "Span", kind: str, words: str | None = None) -> None:
        span.set_attribute("error.type", kind)
        span.set_status(self._api.Status(self._api.StatusCode.ERROR, words))


def record_acceptance(span: "Span", *, events: int, duplicates: int, deliveries: int) -> None:
    """Record the result of a request with events."""
    span.set_attributes(
        {
            "http.response.status_code": 202,
            "hookwright.events": events,
            "hookwright.duplicates": duplicates,
            "hookwright.deliveries": deliveries,
        }
    )


def exemplar_of(traceparent: str) -> dict[str, str]:
    """Return the labels of an OpenMetrics exemplar for a trace."""
    return {"trace_id": traceparent[3:35]}


def traceparent_of(span: "Span") -> str | None:
    """Return the ``traceparent`` with which others continue a trace; None if it is not sampled."""
    context = span.get_span_context()
    if not context.trace_flags.sampled:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _server(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of a URL; a span may have no other part of it."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return "", "", 0
    return parts.scheme, parts.hostname or "", port
