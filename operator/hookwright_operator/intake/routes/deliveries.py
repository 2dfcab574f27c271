"""The delivery log of an endpoint, and the retry of one delivery by hand."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from starlette.requests import Request

from hookwright_crds.documents.delivery_bodies import (
    AttemptAnswer,
    DeliveriesAnswer,
    DeliveryAnswer,
    DeliveryRetryAnswer,
    DetailedAttempt,
    DetailedDelivery,
    LogQuery,
    SentRequestAnswer,
)
from hookwright_crds.operations import Right
from hookwright_crds.timestamps import timestamp
from hookwright_operator.intake.auth import Producer
from hookwright_operator.intake.context import IntakeContext, access_to, client_of, hindrance
from hookwright_operator.registry import Endpoint
from hookwright_operator.services.delivery_log import MASK, SentRequest, is_cursor
from hookwright_operator.store.records import Attempt, DeliveryRecord, State
from hookwright_operator.store.sql import read, search
from hookwright_runtime.held_answers import HeldAnswer
from hookwright_runtime.problems import FieldFault, ProblemError, invalid, not_found
from hookwright_runtime.validation import query_of

OMISSION: Final = "the Project keeps payloads out of the log: spec.deliveryLog.payloads is Omit"
"""The reason for an omitted body."""

_ID: Final = re.compile(r"[0-9A-Za-z_.=-]{1,128}")
"""Form of ids; the store is not asked for other texts."""


async def page(intake: IntakeContext, request: Request, right: Right) -> HeldAnswer:
    """Return an endpoint's deliveries, the newest first; a page may be short or empty.

    The turn of the namespace ends when the answer is sent.
    """
    endpoint, _ = await intake.endpoint(request, right)
    query = query_of(LogQuery, request.query_params)
    check_cursor(query.cursor)
    state = State(query.status) if query.status else None
    with await intake.reads.acquire(endpoint.namespace) as place:
        records, following = await intake.services.store.read_log(
            read.log, endpoint.uid, state=state, limit=query.limit, cursor=query.cursor
        )
        omits = intake.services.registry.omits_payloads(endpoint.namespace, endpoint.project)
        deliveries = [delivery_answer(record, endpoint.name, omits_payloads=omits) for record in records]
        return HeldAnswer(DeliveriesAnswer(data=deliveries, next=following).json_bytes(), place.pop_all())


async def show_of(intake: IntakeContext, request: Request, right: Right) -> DeliveryAnswer:
    """Return one delivery of an endpoint."""
    endpoint, _ = await intake.endpoint(request, right)
    with await intake.places.acquire(endpoint.namespace):
        record = await _find(intake, request)
        if record is None or record.endpoint_uid != endpoint.uid:
            raise _no_delivery(request)
    return await _detailed(intake, record, endpoint)


async def show(intake: IntakeContext, request: Request, right: Right) -> DeliveryAnswer:
    """Return one delivery of the namespace (``?project=``: only of that project)."""
    async with _permitted_delivery(intake, request, right) as (record, endpoint, _):
        pass
    return await _detailed(intake, record, endpoint)


async def retry(intake: IntakeContext, request: Request, right: Right) -> DeliveryRetryAnswer:
    """Send an ended delivery again, or try a pending one now (``?project=``: only of that project)."""
    async with _permitted_delivery(intake, request, right) as (record, endpoint, caller):
        if record.is_test:
            raise ProblemError(409, f"delivery {record.id} is a test; only deliveries of events can be sent again")
        is_sent = endpoint.sendable or endpoint.suspended_after_failures
        if endpoint.expired or (record.state is State.PENDING and not is_sent):
            raise ProblemError(409, f"delivery {record.id} cannot be tried now: {hindrance(endpoint)}")
        if not await intake.services.delivery_log.retry(record):
            raise ProblemError(409, f"delivery {record.id} is discarded; its webhook was deleted or had expired")
        intake.services.events.reporter.resume(endpoint)
        intake.audit(request, "delivery.retry", caller, endpoint, target=record.id)
        return DeliveryRetryAnswer(id=record.id, status="pending")


async def _detailed(intake: IntakeContext, record: DeliveryRecord, endpoint: Endpoint) -> DeliveryAnswer:
    """Return a delivery with its request as it was sent, and the headers of each attempt.

    A wait for the namespace's turn must not hold a place, because places are shared with other namespaces.
    """
    omits = intake.services.registry.omits_payloads(endpoint.namespace, endpoint.project)
    with await intake.signings.acquire(endpoint.namespace):
        event = await intake.services.store.read_log(search.event, record.event_id)
        if event is None:
            return delivery_answer(record, endpoint.name, omits_payloads=omits)
        # Up to 100 attempts are signed again, which takes 150 ms with a large body and several secrets.
        requests = await asyncio.to_thread(intake.services.delivery_log.sent, record, event, endpoint)
    pairs = zip(record.attempts, requests, strict=True)
    way: dict[str, Any] = {"method": None, "url": None} if endpoint.pulled else {"method": "POST", "url": endpoint.url}
    return DetailedDelivery(
        **_fields(record, endpoint.name, omits_payloads=omits),
        request=SentRequestAnswer(**way, **body_fields(event.body, omits_payloads=omits)),
        attempts=[_detailed_attempt(*pair, omits_payloads=omits) for pair in pairs],
    )


@asynccontextmanager
async def _permitted_delivery(
    intake: IntakeContext, request: Request, right: Right
) -> AsyncIterator[tuple[DeliveryRecord, Endpoint, Producer]]:
    """Hold a place and yield the delivery of the path, its endpoint and the caller.

    The delivery is one of the project in ``?project=``, if the request has this parameter.

    Raises:
        ProblemError: 401 or 403; 404, there is no such delivery; 503, no place is free.
        KubeError: the API server cannot review the token or the permission.
    """
    namespace, project = request.path_params["namespace"], request.query_params.get("project")
    authorization = request.headers.get("authorization", "")
    caller = await intake.auth.authenticate(authorization, client_of(request.scope))
    # The caller is not authorized yet. A caller without a recent grant must not use the places of a namespace.
    is_admitted = intake.auth.admits(caller, access_to(namespace, right))
    places, holder = (intake.places, namespace) if is_admitted else (intake.places_without_grant, caller.holder)
    with await places.acquire(holder):
        record = await _find(intake, request)
        endpoint = intake.services.registry.get(record.endpoint_uid) if record else None
        if endpoint and (endpoint.namespace != namespace or project not in (None, endpoint.project)):
            endpoint = None
        # A delivery that does not exist is refused like one of an endpoint for which the caller has no permission.
        await intake.auth.authorise(caller, access_to(namespace, right, endpoint.name if endpoint else ""))
        if record is None or endpoint is None:
            raise _no_delivery(request)
        yield record, endpoint, caller


async def _find(intake: IntakeContext, request: Request) -> DeliveryRecord | None:
    delivery_id = request.path_params["id"]
    return await intake.services.store.read_log(read.delivery, delivery_id) if _ID.fullmatch(delivery_id) else None


def check_cursor(cursor: str | None) -> None:
    """Return if a page of the log can begin at a cursor, raise a 422 otherwise."""
    if cursor and not is_cursor(cursor):
        raise invalid(FieldFault("cursor", "must be the `next` of a page; omit it to begin with the newest delivery"))


def delivery_answer(record: DeliveryRecord, webhook: str, *, omits_payloads: bool) -> DeliveryAnswer:
    """Return a delivery to the endpoint of a name in the form of the log."""
    attempts = [AttemptAnswer(**_attempt_fields(attempt, omits_payloads=omits_payloads)) for attempt in record.attempts]
    return DeliveryAnswer(**_fields(record, webhook, omits_payloads=omits_payloads), attempts=attempts)


def _fields(record: DeliveryRecord, webhook: str, *, omits_payloads: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": record.id,
        "event_id": record.event_id,
        "message_id": record.message_id,
        "webhook": webhook,
        "type": record.event_type,
        "status": record.state.value,
        "reason": record.reason,
        "accepted_at": timestamp(record.accepted_ms),
    }
    if record.is_test:
        fields["test"] = True
    if record.recipient is not None and not omits_payloads:
        fields["recipient"] = record.recipient
    return {**fields, "next_attempt_at": timestamp(record.due_ms)} if record.state is State.PENDING else fields


def body_fields(body: bytes, *, omits_payloads: bool) -> dict[str, Any]:
    """Return the body of an event as text, or the reason why it is omitted."""
    return {"body": None, "body_omitted": OMISSION} if omits_payloads else {"body": body.decode("utf-8", "replace")}


def _attempt_fields(attempt: Attempt, *, omits_payloads: bool) -> dict[str, Any]:
    response = {"response": "", "response_omitted": OMISSION} if omits_payloads else {"response": attempt.response}
    return {
        "number": attempt.number,
        "started_at": timestamp(attempt.started_ms),
        "duration_ms": attempt.duration_ms,
        "statusCode": attempt.status_code,
        "error": attempt.error,
        **response,
    }


def _detailed_attempt(attempt: Attempt, request: SentRequest | None, *, omits_payloads: bool) -> DetailedAttempt:
    return DetailedAttempt(
        **_attempt_fields(attempt, omits_payloads=omits_payloads),
        request_headers=None if request is None else dict(request.headers),
        signature_known=request is not None and request.signature_known,
        endpoint_changed=None if request is None else request.endpoint_changed,
        response_headers=None if attempt.response_headers is None else _headers(attempt.response_headers),
    )


def _headers(lines: str) -> dict[str, str]:
    """Return the headers of a response by name; equal names are joined, and cookies are hidden."""
    headers: dict[str, str] = {}
    for name, _, value in (line.partition(": ") for line in lines.split("\n") if line):
        if name.lower() == "set-cookie":
            headers[name] = MASK
        else:
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _no_delivery(request: Request) -> ProblemError:
    return not_found(f'delivery "{request.path_params["id"]}" in namespace "{request.path_params["namespace"]}"')
