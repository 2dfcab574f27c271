"""One attempt, made directly with a sender; used by the tests of the sender and the guard."""

import ssl
import time
from collections.abc import Callable

from hookwright_operator.delivery.attempt import Outcome
from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.delivery.http.resolver import Lookup, system_lookup
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Claimed

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
OLDER = "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="
BODY = b'{"type":"delivered","messageId":"m-1"}'
MESSAGE = "msg_01JD3ZZZZZZZZZZZZZZZZZZZZZ"


def endpoint(url: str, *, timeout: float = 20.0, headers: tuple[tuple[str, str], ...] = ()) -> Endpoint:
    """Return an endpoint that is ready for attempts; ``timeout`` in seconds."""
    return Endpoint(
        uid="uid-1",
        namespace="acme",
        name="orders",
        project="billing",
        url=url,
        events=frozenset({"delivered"}),
        timeout=timeout,
        headers=headers,
        secrets=(SECRET,),
    )


def guarded(
    guard: Guard, *, lookup: Lookup = system_lookup, tls: ssl.SSLContext | None = None, idle: int = 1024
) -> Sender:
    """Return a sender with this guard that may send to plain http; the caller starts it."""
    return Sender(guard, user_agent="Hookwright/test", allow_http=True, tls=tls, lookup=lookup, idle=idle)


def loopback(*, lookup: Lookup = system_lookup, tls: ssl.SSLContext | None = None, idle: int = 1024) -> Sender:
    """Return a sender that may reach IPv4 loopback; the caller starts it."""
    return guarded(Guard(["127.0.0.0/8"]), lookup=lookup, tls=tls, idle=idle)


def delivery_of(body: bytes = BODY, *, event_id: str = MESSAGE, attributes: str | None = None) -> Claimed:
    """Return a delivery of an event that was accepted in 2026; ``attributes`` are those of a CloudEvent."""
    return Claimed("dlv_1", "uid-1", event_id, "delivered", body, 0, 1_767_225_600_123, attributes=attributes)


async def send(
    sender: Sender, to: Endpoint, delivery: Claimed | None = None, *, now: Callable[[], float] = time.time
) -> Outcome:
    """Make one attempt, with a fixed message unless a delivery is given."""
    return await sender.send(to, delivery or delivery_of(), now=now)
