"""Messages of endpoints with pull: a consumer takes them, and acknowledges or refuses them."""

import asyncio
from base64 import b64encode
from collections.abc import Mapping
from typing import Final

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from hookwright_operator import metrics
from hookwright_operator.intake.asgi import headers_of
from hookwright_operator.intake.auth import ReviewAuth
from hookwright_operator.intake.message_body import SettleBody, TakeQuery, settle_body, take_query
from hookwright_operator.intake.routes.endpoints import ENDPOINT, audit, hindrance, permitted_endpoint
from hookwright_operator.intake.timestamps import timestamp
from hookwright_operator.registry import Endpoint
from hookwright_operator.services import IntakeServices
from hookwright_operator.services.messages import (
    LEASE_ENDED,
    LeaseId,
    Nack,
    SettledLease,
    Taken,
    lease_of,
    message_headers,
    message_id_of,
)
from hookwright_runtime.held_answers import HeldAnswer, until_gone
from hookwright_runtime.places import Places
from hookwright_runtime.problems import ProblemError
from hookwright_runtime.request_body import Bodies

_BODY_LIMIT: Final = 256 * 1024
_AT_ONCE: Final = 50
"""Messages that are signed without a pause for other requests."""
_NONE: Final = b'{"data":[]}'


class TakeRoute:
    """The route that leases messages; plain ASGI, so that a request counts until its answer is sent."""

    def __init__(self, services: IntakeServices, auth: ReviewAuth, polls: Places, ending: asyncio.Event) -> None:
        self._services, self._auth, self._polls, self._ending = services, auth, polls, ending
        metrics.PULL_POLLS.set_function(lambda: polls.count)
        metrics.NAMESPACE_USE.labels("polls").set_function(lambda: polls.largest_use)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lease messages to the caller (``?limit=&wait=&lease=``): ``{data}``.

        Raises:
            ProblemError: 405 for HEAD; 409, the endpoint has a URL or is not ready; 422, the query is wrong; 429, the
                namespace has too many such requests.
        """
        if scope["method"] == "HEAD":
            raise ProblemError(405, "messages are taken with GET", headers={"Allow": "GET"})
        request = Request(scope, receive)
        endpoint, _ = await permitted_endpoint(self._services, self._auth, request, "create", "pull")
        query = take_query(request.query_params.get)
        _check(endpoint)
        with await self._polls.acquire(endpoint.namespace) as place:
            body = await until_gone(self._taken(endpoint, query), receive, self._ending)
            answer = HeldAnswer(body or _NONE, place.pop_all(), **{"Cache-Control": "no-store"})
        await answer(scope, receive, send)

    async def _taken(self, endpoint: Endpoint, query: TakeQuery) -> bytes | None:
        taken = await self._services.messages.take(
            endpoint.uid, limit=query.limit, wait=query.wait, lease_ms=query.lease_ms
        )
        if taken is None:
            return None
        try:
            return await _document(*taken)
        except asyncio.CancelledError:
            # The consumer did not get the messages, so the leases must not end as its failed attempts.
            await self._services.messages.give_back(*taken)
            raise


class MessageRoutes:
    """Routes that settle messages."""

    def __init__(self, services: IntakeServices, auth: ReviewAuth, bodies: Bodies, places: Places) -> None:
        self._services, self._auth, self._bodies, self._places = services, auth, bodies, places

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route(f"{ENDPOINT}/messages/ack", self.ack, methods=["POST"]),
            Route(f"{ENDPOINT}/messages/nack", self.nack, methods=["POST"]),
        ]

    async def ack(self, request: Request) -> Response:
        """Acknowledge messages, ``{ids}``: ``{data}`` with a result for each."""
        return await self._settle(request, refuses=False)

    async def nack(self, request: Request) -> Response:
        """Refuse messages, ``{ids, delay?, reason?}``: ``{data}`` with a result for each."""
        return await self._settle(request, refuses=True)

    async def _settle(self, request: Request, *, refuses: bool) -> Response:
        endpoint, caller = await permitted_endpoint(self._services, self._auth, request, "create", "pull")
        holder = f'namespace "{endpoint.namespace}"'
        body = await self._bodies.read(request.receive, headers_of(request.scope), holder, limit=_BODY_LIMIT)
        asked = settle_body(body, refuses=refuses)
        leases = {one: lease_of(one) for one in asked.ids}
        wanted = list(dict.fromkeys(lease for lease in leases.values() if lease is not None))
        refusal = Nack(asked.reason, asked.delay_ms) if refuses else None
        with await self._places.acquire(endpoint.namespace):
            results, new = await self._services.messages.settle(endpoint, wanted, refusal)
        done = [lease.delivery_id for lease, settled in results.items() if _is_ours(settled, refuses=refuses)]
        action = "message.nack" if refuses else "message.ack"
        audit(self._services, request, action, caller, endpoint, deliveries=[one for one in done if one in new])
        repeated = [one for one in done if one not in new]
        audit(self._services, request, f"{action}_repeated", caller, endpoint, deliveries=repeated)
        return Response(_results(asked, leases, results, new, refuses=refuses), media_type="application/json")


def _check(endpoint: Endpoint) -> None:
    """Return if consumers may take messages of an endpoint, at once or when it is resumed."""
    if not endpoint.pulled:
        raise ProblemError(409, f'webhook "{endpoint.name}" has a url; only a webhook with pull has messages to take')
    if endpoint.expired or (not endpoint.sendable and not endpoint.suspend):
        raise ProblemError(409, f"no message can be taken now: {hindrance(endpoint)}")


async def _document(endpoint: Endpoint, taken: Taken) -> bytes:
    """Return signed messages as JSON, and let other requests run between."""
    until, parts = timestamp(taken.until_ms), []
    for number, message in enumerate(taken.messages, 1):
        try:
            body, encoding = message.body.decode(), "utf-8"
        except UnicodeDecodeError:
            body, encoding = b64encode(message.body).decode(), "base64"
        fields = {
            "id": message_id_of(LeaseId(message.id, taken.id)),
            "delivery_id": message.id,
            "type": message.event_type,
            "attempt": message.attempts + 1,
            "lease_until": until,
            "headers": message_headers(endpoint, message, taken.at_ms),
            "body": body,
            "body_encoding": encoding,
        }
        parts.append(to_json(fields))
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
    return b'{"data":[%b]}' % b",".join(parts)


def _results(
    asked: SettleBody,
    leases: Mapping[str, LeaseId | None],
    results: Mapping[LeaseId, SettledLease],
    new: frozenset[str],
    *,
    refuses: bool,
) -> bytes:
    by_id = {}
    for one, lease in leases.items():
        settled = results.get(lease) if lease is not None else None
        is_new = lease is not None and lease.delivery_id in new
        by_id[one] = _result(one, settled, is_new=is_new, refuses=refuses)
    return to_json({"data": [by_id[one] for one in asked.ids]})


def _result(message_id: str, settled: SettledLease | None, *, is_new: bool, refuses: bool) -> dict[str, object]:
    if settled is None:
        return {"id": message_id, "result": "unknown", "repeated": False, "status": None, "next_attempt_at": None}
    done, is_ours = "nacked" if refuses else "acked", _is_ours(settled, refuses=refuses)
    due = timestamp(settled.due_ms) if settled.due_ms is not None else None
    return {
        "id": message_id,
        "result": done if is_ours else "lease_ended",
        "repeated": is_ours and not is_new,
        "status": settled.state,
        "next_attempt_at": due,
    }


def _is_ours(settled: SettledLease, *, refuses: bool) -> bool:
    """Return whether a request like this one settled the message: this one, or an earlier one that it repeats."""
    return settled.error is not None and settled.error != LEASE_ENDED and bool(settled.error) is refuses
