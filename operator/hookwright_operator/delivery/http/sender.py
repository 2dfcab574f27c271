"""One signed attempt to one endpoint, and its outcome.

One :class:`Sender` serves all endpoints. It has the one guarded HTTP client of the process, with its connections, its
TLS contexts and its name look-ups. The parts of a request that are equal in all attempts to an endpoint are prepared
once.
"""

import asyncio
import re
import ssl
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import structlog

from hookwright_crds.endpoint_fields import CLOUDEVENTS, RESERVED_HEADERS
from hookwright_operator.delivery.attempt import Outcome
from hookwright_operator.delivery.http.access_tokens import AccessTokens
from hookwright_operator.delivery.http.client import Client, Origin
from hookwright_operator.delivery.http.connection import Exchange
from hookwright_operator.delivery.http.egress_proxy import EgressProxy
from hookwright_operator.delivery.http.error_messages import (
    AttemptError,
    DeadlineError,
    TokenServerError,
    fault_words,
    own_fault,
    status_words,
    timeout_words,
)
from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.delivery.http.message_headers import PREFIX, cloudevent_headers
from hookwright_operator.delivery.http.request_urls import RequestUrls
from hookwright_operator.delivery.http.resolver import GuardedResolver, Lookup, system_lookup
from hookwright_operator.delivery.http.response import excerpt, header_lines, retry_after_ms
from hookwright_operator.delivery.http.sent_request import MASK, SentRequest, fingerprints, sent_request
from hookwright_operator.delivery.http.signatures import signature_headers
from hookwright_operator.delivery.http.tls_contexts import TlsContexts
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Attempt, Claimed
from hookwright_operator.tracing import Traces, traceparent_of

log = structlog.get_logger(__name__)

RESPONSE_LIMIT: Final = 4096
"""How many bytes of a response body are kept by default."""

_TARGETS: Final = 4096
"""Endpoints whose constant part of a request is kept, of the last snapshot of each."""
_PREPARED_BYTES: Final = 16 * 1024
"""Size of the largest part that is kept; larger ones are prepared for each attempt."""
_LARGE_BODY: Final = 64 * 1024
"""Bytes from which a body is written apart from its head, because a copy would use memory for the whole attempt."""
_TRACE_HEADERS: Final = frozenset({"traceparent", "tracestate"})
_REFUSED_TOKEN: Final = frozenset({401, 403})
"""The statuses after which the request is repeated with another access token, in the same attempt."""
_BUSY: Final = frozenset({429, 503})
"""The statuses whose Retry-After is used."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SHORTEST_PART: Final = 4
"""Characters of a secret value that are masked at the end of an answer."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class Sender:
    """Sender of attempts, with the one guarded client. Use it as an async context manager, or start and close it.

    Args:
        guard: checks every address before a connection to it.
        user_agent: value of the User-Agent header, ``Hookwright/<version>``.
        allow_http: whether plain ``http://`` URLs are allowed.
        tls: context for https of endpoints without a TLS identity, the system's trust store by default.
        lookup: finds a name's addresses; blocks, and is called in a thread.
        response_limit: how many bytes of a response body are kept, counted after decompression.
        traces: creates a span for each attempt whose event is traced; None creates no spans.
        traces_to_receivers: whether such an attempt sends its ``traceparent`` to the receiver.
        idle: connections without a request that are kept for the next attempt, of all receivers.
        proxy: URL of the egress proxy; empty for direct connections.
        proxy_exceptions: domains and networks that are reached without it.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        user_agent: str,
        allow_http: bool,
        tls: ssl.SSLContext | None = None,
        lookup: Lookup = system_lookup,
        response_limit: int = RESPONSE_LIMIT,
        traces: Traces | None = None,
        traces_to_receivers: bool = False,
        idle: int = 1024,
        proxy: str = "",
        proxy_exceptions: Sequence[str] = (),
    ) -> None:
        self._guard = guard
        self._user_agent = user_agent
        self._urls = RequestUrls(guard, allow_http)
        self._tls = tls
        self._lookup = lookup
        self._response_limit = response_limit
        self._traces = traces
        self._traces_to_receivers = traces_to_receivers
        self._most_idle = idle
        self._proxy_url, self._proxy_exceptions = proxy, proxy_exceptions
        self._proxy: EgressProxy | None = None
        self._targets: dict[str, tuple[Endpoint, _Target]] = {}
        self._client: Client | None = None
        self._tokens: AccessTokens
        self._resolver: GuardedResolver | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Create the client; call it in the event loop that will send."""
        self._resolver = GuardedResolver(self._guard, self._lookup)
        if self._proxy_url:
            self._proxy = EgressProxy(self._proxy_url, self._proxy_exceptions, self._lookup)
        self._client = Client(self._guard, self._resolver, TlsContexts(self._tls), self._most_idle, self._proxy)
        self._tokens = AccessTokens(self._client, self._urls, self._user_agent)

    async def close(self) -> None:
        """Close all connections; attempts under way fail."""
        if self._client is not None:
            await self._client.close()
        for resolver in (self._resolver, self._proxy):
            if resolver is not None:
                await resolver.close()

    async def send(self, endpoint: Endpoint, delivery: Claimed, *, now: Callable[[], float]) -> Outcome:
        """Make one attempt; every failure is returned in the outcome and not raised.

        Args:
            endpoint: the URL, the signing secrets and the timeout, which covers the whole attempt.
            delivery: its event's id is ``webhook-id``, and its body the exact bytes that are signed and sent.
            now: the clock, in seconds since the epoch.
        """
        if self._traces is None or delivery.trace is None:
            return await self._attempt(endpoint, delivery, now)
        with self._traces.attempting(endpoint, delivery, delivery.trace) as span:
            traceparent = traceparent_of(span) if self._traces_to_receivers else None
            outcome = await self._attempt(endpoint, delivery, now, traceparent=traceparent)
            self._traces.record_outcome(span, outcome.status_code, outcome.error)
            return outcome

    async def _attempt(
        self,
        endpoint: Endpoint,
        delivery: Claimed,
        now: Callable[[], float],
        *,
        traceparent: str | None = None,
    ) -> Outcome:
        body = delivery.body
        start, clock = now(), asyncio.get_running_loop().time
        loop_start = clock()
        exchange = Exchange(self._response_limit)
        fault, shortage, timed_out, identity = "", "", False, None
        tokens: list[str] = []
        try:
            target = self._target(endpoint)
            identity = f"{int(start)} {target.fingerprints}"
            lines = _lines(_changing(endpoint, delivery.event_id, int(start), body, traceparent))
            if endpoint.format == CLOUDEVENTS:
                lines += _lines(cloudevent_headers(endpoint, delivery))
            client, deadline = self._client_started(), loop_start + endpoint.timeout
            if endpoint.oauth2 is not None:
                tokens = [await self._tokens.get(endpoint)]
                # The time of the token server is not the receiver's.
                deadline = clock() + endpoint.timeout
            request = _request(target.head, lines, tokens, body)
            await client.post(target.origin, request, exchange, deadline, namespace=endpoint.namespace)
            if tokens and exchange.status in _REFUSED_TOKEN:
                refused_at = clock()
                with suppress(TokenServerError):  # then the refusal is the result
                    tokens.append(await self._tokens.get(endpoint, refused_token=tokens[0]))
                if tokens[-1] != tokens[0]:
                    exchange = Exchange(self._response_limit)
                    request, deadline = _request(target.head, lines, tokens, body), deadline + clock() - refused_at
                    await client.post(target.origin, request, exchange, deadline, namespace=endpoint.namespace)
        except DeadlineError:
            fault, timed_out = timeout_words(endpoint.timeout, exchange.step), True
        except Exception as error:  # noqa: BLE001 - every failure becomes an outcome
            # With a second token the receiver has answered the request with the first one.
            shortage = "" if exchange.status or len(tokens) > 1 else own_fault(error)
            fault = fault_words(error, exchange.step) or _internal(error, delivery, endpoint)
        return Outcome(
            status_code=exchange.status,
            error=(status_words(exchange.status) if exchange.status else "") or fault,
            response=_without(endpoint, tokens, self._excerpt(exchange))
            if exchange.body and not endpoint.omits_responses
            else "",
            duration_ms=int((clock() - loop_start - exchange.waited) * 1000) + 1,
            started_ms=int((start + exchange.waited) * 1000),
            retry_after_ms=retry_after_ms(exchange.retry_after, now()) if exchange.status in _BUSY else None,
            own_fault=shortage,
            timed_out=timed_out,
            response_headers=_without(endpoint, tokens, header_lines(exchange.headers)) if exchange.status else None,
            request=identity,
        )

    def requests_of(
        self, endpoint: Endpoint, delivery: Claimed, attempts: Sequence[Attempt]
    ) -> list[SentRequest | None]:
        """Compute the requests of earlier attempts again; a thread may call it.

        Args:
            endpoint: as it is now; it may have changed since.
            delivery: with the body that was sent.
            attempts: as the store recorded them.

        Returns:
            None for an attempt that made no request, or if an operator made it that did not record its request.
        """
        try:
            head = self._prepare(endpoint).shown_head
        except AttemptError:
            head = None
        return [sent_request(head, endpoint, delivery, attempt) for attempt in attempts]

    def _excerpt(self, exchange: Exchange) -> str:
        return excerpt(exchange.body, exchange.coding, self._response_limit)

    def _client_started(self) -> Client:
        if self._client is None:
            raise RuntimeError("the sender was not started")
        return self._client

    def _target(self, endpoint: Endpoint) -> "_Target":
        entry = self._targets.get(endpoint.uid)
        if entry is not None and entry[0] is endpoint:
            return entry[1]
        target = self._prepare(endpoint)
        self._targets.pop(endpoint.uid, None)
        if len(target.head) <= _PREPARED_BYTES:
            if len(self._targets) >= _TARGETS:
                del self._targets[next(iter(self._targets))]
            self._targets[endpoint.uid] = (endpoint, target)
        return target

    def _prepare(self, endpoint: Endpoint) -> "_Target":
        if not endpoint.secrets:
            raise AttemptError("the endpoint has no signing secret yet")
        url, origin = self._urls.checked(endpoint.url)
        origin = origin._replace(identity=endpoint.tls)
        ours = RESERVED_HEADERS | _TRACE_HEADERS if self._traces_to_receivers else RESERVED_HEADERS
        cloudevents = endpoint.format == CLOUDEVENTS
        headers = {
            "host": ("Host", url.host_port_subcomponent or ""),
            "user-agent": ("User-Agent", self._user_agent),
            "content-type": ("Content-Type", "application/json"),
            "accept": ("Accept", "*/*"),
            "accept-encoding": ("Accept-Encoding", "identity"),
        }
        for name, value in endpoint.headers:
            # kube-apiserver refuses ce- headers in this format, but not in an object that is older than the format.
            if name.lower() not in ours and not (cloudevents and name.lower().startswith(PREFIX)):
                _check_header(name, value)
                # Keyed by lower-case names, so that an endpoint's own Accept replaces the default one.
                headers[name.lower()] = (name, value)
        token_header = {} if endpoint.oauth2 is None else {"Authorization": MASK}
        credentials = [entry for entry in endpoint.secret_headers if entry.name.lower() not in ours]
        headers |= {entry.name.lower(): (entry.name, MASK) for entry in credentials}
        line = f"POST {url.raw_path_qs} HTTP/1.1\r\n".encode()
        shown_head = line + _lines(dict(headers.values()) | token_header)
        headers |= {entry.name.lower(): (entry.name, entry.prefix + entry.value) for entry in credentials}
        head = line + _lines(dict(headers.values()))
        return _Target(origin, head, shown_head, fingerprints(endpoint, shown_head))


@dataclass(frozen=True, slots=True)
class _Target:
    """The part of a request that is equal in all attempts with one snapshot of an endpoint.

    Attributes:
        head: the request line and the headers that never change.
        shown_head: the head without the values of secret headers, so that the log has nothing that depends on them.
        fingerprints: of the signing secrets and of the shown head.
    """

    origin: Origin
    head: bytes
    shown_head: bytes
    fingerprints: str


def _changing(
    endpoint: Endpoint, message_id: str, timestamp: int, body: bytes, traceparent: str | None
) -> dict[str, str]:
    """Return the headers that differ between attempts."""
    if _CONTROL.search(message_id):
        raise AttemptError("the event's id has a control character")
    signatures = signature_headers(
        endpoint.secrets, message_id, timestamp, body,
        by_newest=endpoint.newest_signs, extra=endpoint.extra_signature,
    )  # fmt: skip
    return {"traceparent": traceparent, **signatures} if traceparent else signatures


def _request(head: bytes, lines: bytes, tokens: Sequence[str], body: bytes) -> tuple[bytes, ...]:
    """Return the parts of a request, with the last token if there is one."""
    authorization = f"Authorization: Bearer {tokens[-1]}\r\n".encode() if tokens else b""
    head = b"%b%b%bContent-Length: %d\r\n\r\n" % (head, authorization, lines, len(body))
    return (head + body,) if len(body) < _LARGE_BODY else (head, body)


def _lines(headers: Mapping[str, str]) -> bytes:
    """Return header lines; the caller has checked names and values."""
    return "".join([f"{name}: {value}\r\n" for name, value in headers.items()]).encode()


def _without(endpoint: Endpoint, tokens: Sequence[str], text: str) -> str:
    """Return a part of an answer, of the same limit, without the credentials that the receiver repeats."""
    if not endpoint.secret_headers and endpoint.oauth2 is None:
        return text
    plain = [*tokens, *(entry.value for entry in endpoint.secret_headers)]
    plain += [] if endpoint.oauth2 is None else [endpoint.oauth2.secret]
    # Headers of an answer are decoded as ISO 8859-1. The longest value first, because one may contain another.
    values = sorted({*plain, *(value.encode().decode("latin-1") for value in plain)}, key=len, reverse=True)
    if not any(value[:_SHORTEST_PART] in text for value in values):
        return text
    masked = re.sub("|".join(map(re.escape, values)), MASK, text)[: max(len(text), RESPONSE_LIMIT)]
    # The text may have been cut inside a value.
    cut = max(
        (
            n
            for value in values
            for n in range(_SHORTEST_PART, min(len(value), len(masked) + 1))
            if masked.endswith(value[n - 1]) and masked.endswith(value[:n])
        ),
        default=0,
    )
    return masked[: len(masked) - cut] + MASK if cut else masked


def _check_header(name: str, value: str) -> None:
    """Reject a name or value that HTTP would not read as one header (RFC 9110 5.5)."""
    if not _TOKEN.fullmatch(name):
        raise AttemptError("a header's name is not valid in HTTP")
    if _CONTROL.search(value):
        raise AttemptError(f"the value of the header {name} has a control character")


def _internal(error: Exception, delivery: Claimed, endpoint: Endpoint) -> str:
    # Without the exception's text, because it may quote a header or the URL.
    log.error(
        "attempt failed unexpectedly",
        delivery=delivery.id, event_id=delivery.event_id,
        namespace=endpoint.namespace, endpoint=endpoint.name,
        error=type(error).__name__, stack="".join(traceback.format_tb(error.__traceback__)),
    )  # fmt: skip
    return f"internal error: {type(error).__name__}"
