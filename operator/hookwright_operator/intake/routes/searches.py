"""Searches of the delivery log of a namespace, and one event with its deliveries."""

import re
from collections.abc import Sequence
from typing import Any, Final

from pydantic_core import from_json
from starlette.requests import Request

from hookwright_crds.documents.delivery_bodies import (
    DeliveriesAnswer,
    DeliveryAnswer,
    DeliveryConditions,
    DeliverySearch,
    EventAnswer,
)
from hookwright_crds.operations import Right
from hookwright_crds.timestamps import time_of, timestamp
from hookwright_operator.ids import epoch_ms_of
from hookwright_operator.intake.context import IntakeContext
from hookwright_operator.intake.routes.deliveries import body_fields, check_cursor, delivery_answer
from hookwright_operator.registry import DEFAULT_SETTINGS, Endpoint
from hookwright_operator.store.records import DeliveryRecord, EventRecord, Search, State
from hookwright_operator.store.sql import search as sql
from hookwright_runtime.held_answers import HeldAnswer
from hookwright_runtime.problems import not_found
from hookwright_runtime.validation import query_of

MAX_BODY_BYTES: Final = 8192
LIMIT: Final = 100
"""Deliveries that the answer about an event lists."""
_EVENT: Final = re.compile(r"msg_[0-9A-Za-z]{1,64}")


async def search(intake: IntakeContext, request: Request, right: Right) -> HeldAnswer:
    """Return the deliveries that meet all conditions of the query, the newest first."""
    parameters = {name: value for name, value in request.query_params.items() if name != "project"}
    return await _page(intake, *await _permitted(intake, request, right), query_of(DeliveryConditions, parameters))


async def find(intake: IntakeContext, request: Request, right: Right) -> HeldAnswer:
    """Return the same for the conditions of a body, which may have a recipient."""
    namespace, endpoints = await _permitted(intake, request, right)
    conditions = await intake.document(request, DeliverySearch, MAX_BODY_BYTES)
    omits_payloads = intake.services.registry.omits_payloads
    if conditions.recipient is not None:
        endpoints = [endpoint for endpoint in endpoints if not omits_payloads(namespace, endpoint.project)]
    return await _page(intake, namespace, endpoints, conditions)


async def _page(
    intake: IntakeContext, namespace: str, endpoints: Sequence[Endpoint], conditions: DeliveryConditions
) -> HeldAnswer:
    """Return a page of a search; the namespace's turn ends when the answer is sent."""
    query = _search(conditions, namespace, endpoints)
    with await intake.reads.acquire(namespace) as place:
        records, following = await intake.services.store.read_log(
            sql.page, query, limit=conditions.limit, cursor=conditions.cursor
        )
        reached = {"examined_since": timestamp(epoch_ms_of(following))} if following else {}
        page = DeliveriesAnswer(data=_deliveries(intake, records, endpoints), next=following, **reached)
        return HeldAnswer(page.json_bytes(), place.pop_all())


async def show_event(intake: IntakeContext, request: Request, right: Right) -> HeldAnswer:
    """Return one event with its newest deliveries; the namespace's turn ends when the answer is sent."""
    namespace, endpoints = await _permitted(intake, request, right)
    event_id, project = request.path_params["id"], request.query_params.get("project")
    registry, store = intake.services.registry, intake.services.store
    with await intake.reads.acquire(namespace) as place:
        event = await store.read_log(sql.event, event_id) if _EVENT.fullmatch(event_id) else None
        if event is None or not _is_of(intake, event, namespace, project):
            raise not_found(f'event "{event_id}" in namespace "{namespace}"')
        uids = [endpoint.uid for endpoint in endpoints]
        records, following = await store.read_log(sql.deliveries_of, event, uids, limit=LIMIT)
        optional: dict[str, Any] = {} if event.attributes is None else {"cloudevent": from_json(event.attributes)}
        answer = EventAnswer(
            id=event.id,
            project=event.project,
            type=event.type,
            accepted_at=timestamp(event.accepted_ms),
            deliveries=_deliveries(intake, records, endpoints),
            next=following,
            **body_fields(event.body, omits_payloads=registry.omits_payloads(namespace, event.project)),
            **optional,
        )
        return HeldAnswer(answer.json_bytes(), place.pop_all())


def _is_of(intake: IntakeContext, event: EventRecord, namespace: str, project: str | None) -> bool:
    """Whether an event is of a namespace, of the project if one is given, and not of an earlier one of its name."""
    settings = intake.services.registry.project(namespace, event.project) or DEFAULT_SETTINGS
    is_later = event.accepted_ms >= settings.created_ms
    return is_later and event.namespace == namespace and project in (None, event.project)


def _deliveries(
    intake: IntakeContext, records: Sequence[DeliveryRecord], endpoints: Sequence[Endpoint]
) -> list[DeliveryAnswer]:
    """Return deliveries to some endpoints in the form of the log."""
    by_uid = {endpoint.uid: endpoint for endpoint in endpoints}
    to = [(record, by_uid[record.endpoint_uid]) for record in records]
    omits_payloads = intake.services.registry.omits_payloads
    return [
        delivery_answer(record, endpoint.name, omits_payloads=omits_payloads(endpoint.namespace, endpoint.project))
        for record, endpoint in to
    ]


async def _permitted(intake: IntakeContext, request: Request, right: Right) -> tuple[str, Sequence[Endpoint]]:
    """Return the namespace of the path and its endpoints, or only those of the project in ``?project=``."""
    namespace = request.path_params["namespace"]
    await intake.permit(request, right)
    return namespace, intake.services.registry.endpoints_of(namespace, request.query_params.get("project"))


def _search(conditions: DeliveryConditions, namespace: str, endpoints: Sequence[Endpoint]) -> Search:
    """Return a search of some endpoints.

    Raises:
        ProblemError: 404, none of them is the webhook; 422, there is no such cursor.
    """
    check_cursor(conditions.cursor)
    uids = [endpoint.uid for endpoint in endpoints if conditions.webhook in (None, endpoint.name)]
    if conditions.webhook and not uids:
        raise not_found(f'WebhookEndpoint "{conditions.webhook}" in namespace "{namespace}"')
    return Search(
        endpoint_uids=tuple(uids),
        namespace=namespace,
        message_id=conditions.message_id,
        event_id=conditions.event_id,
        event_type=conditions.type,
        state=State(conditions.status) if conditions.status else None,
        status_code=conditions.status_code,
        recipient=conditions.recipient if isinstance(conditions, DeliverySearch) else None,
        since_ms=time_of(conditions.since or ""),
        until_ms=time_of(conditions.until or ""),
    )
