"""Messages of endpoints with pull: a consumer takes them, and acknowledges or refuses them."""

import asyncio
from base64 import b64encode
from datetime import timedelta
from typing import Any, Final, cast

from starlette.requests import Request

from hookwright_crds.base import parse_duration
from hookwright_crds.documents.message_bodies import (
    AckRequest,
    MessageAnswer,
    MessageResultAnswer,
    MessageResultsAnswer,
    NackRequest,
    TakeQuery,
)
from hookwright_crds.operations import Right
from hookwright_crds.timestamps import timestamp
from hookwright_operator.intake.context import IntakeContext, hindrance
from hookwright_operator.registry import Endpoint
from hookwright_operator.services.messages import lease_of, message_headers, message_id_of
from hookwright_operator.store.message_leases import LeaseId, Nack, SettledLease, Taken
from hookwright_operator.store.sql.pull import LEASE_ENDED
from hookwright_runtime.held_answers import HeldAnswer, until_gone
from hookwright_runtime.problems import ProblemError
from hookwright_runtime.validation import query_of

NO_REASON: Final = "the consumer refused the message"
_BODY_LIMIT: Final = 256 * 1024
_AT_ONCE: Final = 50
"""Messages that are signed without a pause for other requests."""
_EMPTY: Final = b'{"data":[]}'
_MILLISECOND: Final = timedelta(milliseconds=1)


async def take(intake: IntakeContext, request: Request, right: Right) -> HeldAnswer:
    """Lease messages to the caller; the request counts until its answer is sent.

    Raises:
        ProblemError: 405 for HEAD; 409, the endpoint has a URL or is not ready; 422, the query is wrong; 429, the
            namespace has too many such requests.
    """
    if request.method == "HEAD":
        raise ProblemError(405, "messages are taken with GET", headers={"Allow": "GET"})
    endpoint, _ = await intake.endpoint(request, right)
    query = query_of(TakeQuery, request.query_params)
    if not endpoint.pulled:
        raise ProblemError(409, f'webhook "{endpoint.name}" has a url; only a webhook with pull has messages to take')
    if endpoint.expired or (not endpoint.sendable and not endpoint.suspend):
        raise ProblemError(409, f"no message can be taken now: {hindrance(endpoint)}")
    with await intake.polls.acquire(endpoint.namespace) as place:
        body = await until_gone(_taken(intake, endpoint, query), request.receive, intake.ending)
        return HeldAnswer(body or _EMPTY, place.pop_all(), **{"Cache-Control": "no-store"})


async def _taken(intake: IntakeContext, endpoint: Endpoint, query: TakeQuery) -> bytes | None:
    wait, lease_ms = parse_duration(query.wait).total_seconds(), _milliseconds(query.lease)
    messages = intake.services.messages
    answer = await messages.take(endpoint.uid, limit=query.limit, wait=wait, lease_ms=lease_ms)
    if answer is None:
        return None
    try:
        return await _document(*answer)
    except asyncio.CancelledError:
        # The consumer did not get the messages, so the leases must not end as its failed attempts.
        await messages.give_back(*answer)
        raise


def _milliseconds(duration: str | None) -> int | None:
    return None if duration is None else parse_duration(duration) // _MILLISECOND


async def _document(endpoint: Endpoint, lease: Taken) -> bytes:
    """Return signed messages as JSON, and let other requests run between."""
    until, parts = timestamp(lease.until_ms), []
    for number, message in enumerate(lease.messages, 1):
        try:
            body, is_text = message.body.decode(), True
        except UnicodeDecodeError:
            body, is_text = b64encode(message.body).decode(), False
        answer = MessageAnswer(
            id=message_id_of(LeaseId(message.id, lease.id)),
            delivery_id=message.id,
            type=message.event_type,
            attempt=message.attempts + 1,
            lease_until=until,
            headers=message_headers(endpoint, message, lease.at_ms),
            body=body,
            body_encoding="utf-8" if is_text else "base64",
        )
        parts.append(answer.json_bytes())
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
    return b'{"data":[%b]}' % b",".join(parts)


async def ack(intake: IntakeContext, request: Request, right: Right) -> MessageResultsAnswer:
    """Acknowledge messages, and return a result for each."""
    return await _settle(intake, request, right, AckRequest)


async def nack(intake: IntakeContext, request: Request, right: Right) -> MessageResultsAnswer:
    """Refuse messages, and return a result for each."""
    return await _settle(intake, request, right, NackRequest)


async def _settle(
    intake: IntakeContext, request: Request, right: Right, model: type[AckRequest | NackRequest]
) -> MessageResultsAnswer:
    endpoint, caller = await intake.endpoint(request, right)
    body = await intake.document(request, model, _BODY_LIMIT)
    refusal = Nack(body.reason or NO_REASON, _milliseconds(body.delay)) if isinstance(body, NackRequest) else None
    leases = {message_id: lease_of(message_id) for message_id in body.ids}
    lease_ids = list(dict.fromkeys(lease for lease in leases.values() if lease is not None))
    with await intake.places.acquire(endpoint.namespace):
        settlements, new = await intake.services.messages.settle(endpoint, lease_ids, refusal)
    refuses = refusal is not None
    ids = [lease.delivery_id for lease, result in settlements.items() if _is_ours(result, refuses=refuses)]
    action = "message.nack" if refuses else "message.ack"
    intake.audit(request, action, caller, endpoint, deliveries=[id_ for id_ in ids if id_ in new])
    repetitions = [id_ for id_ in ids if id_ not in new]
    intake.audit(request, f"{action}_repeated", caller, endpoint, deliveries=repetitions)
    results = {}
    for message_id, lease in leases.items():
        result = settlements.get(lease) if lease is not None else None
        is_new = lease is not None and lease.delivery_id in new
        results[message_id] = _result(message_id, result, is_new=is_new, refuses=refuses)
    return MessageResultsAnswer(data=[results[message_id] for message_id in body.ids])


def _result(message_id: str, settlement: SettledLease | None, *, is_new: bool, refuses: bool) -> MessageResultAnswer:
    if settlement is None:
        return MessageResultAnswer(id=message_id, result="unknown", repeated=False, status=None, next_attempt_at=None)
    is_ours, status = _is_ours(settlement, refuses=refuses), cast("Any", settlement.state.value)
    return MessageResultAnswer(
        id=message_id,
        result="lease_ended" if not is_ours else "nacked" if refuses else "acked",
        repeated=is_ours and not is_new,
        status=status,
        next_attempt_at=timestamp(settlement.due_ms) if settlement.due_ms is not None else None,
    )


def _is_ours(settlement: SettledLease, *, refuses: bool) -> bool:
    """Return whether a request like this one settled the message: this one, or an earlier one that it repeats."""
    return settlement.error is not None and settlement.error != LEASE_ENDED and bool(settlement.error) is refuses
