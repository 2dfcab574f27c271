"""Events from producers outside the cluster, forwarded unchanged to the operator."""

import re
from contextlib import suppress
from typing import Final

from fastapi import APIRouter, Request, Response

from hookwright_api.auth.permissions import READ, SEND
from hookwright_api.http.guarded_route import EventsRoute, GuardedRoute, caller_of, holder_of, needs
from hookwright_api.http.openapi import links
from hookwright_api.http.responses import raw_answer
from hookwright_api.idempotency import EventsShapeError, check_key, event_ids_in_pieces
from hookwright_api.routes.keys import IdempotencyKey
from hookwright_api.routes.operator_answers import forward
from hookwright_api.routes.scoping import ProjectQuery, one_project, optional_project
from hookwright_api.schemas.delivery_bodies import EventAnswer
from hookwright_api.schemas.event_bodies import EventsAnswer
from hookwright_api.services import services_of
from hookwright_runtime.problems import not_found
from hookwright_runtime.request_body import parsing_weight

router = APIRouter(prefix="/v1/events", tags=["events"], route_class=EventsRoute)
reading = APIRouter(prefix="/v1/events", tags=["events"], route_class=GuardedRoute)

_EVENT_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@router.post(
    "",
    status_code=202,
    response_model=EventsAnswer,
    operation_id="sendEvents",
    responses={202: links("getEvent", id="$response.body#/event_ids/0")},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/EventsRequest"}}},
        },
    },
)
@needs(SEND)
async def send_events(request: Request, idempotency_key: IdempotencyKey = None) -> Response:
    """Accept one event or an array of up to 1,000, all or none; 202 after they are stored durably.

    An event with an `id` can be sent again for 24 hours without a second delivery. With an Idempotency-Key, an event
    without an id gets one that is derived from the key and the event's content.
    """
    organization, project = caller_of(request).organization, one_project(request, None)
    body = await request.body()
    key = check_key(idempotency_key)
    if key is not None:
        # A body that gets no ids is forwarded unchanged, because the operator reports its faults.
        with suppress(EventsShapeError):
            pieces, weight = event_ids_in_pieces(body, "events", organization, project, key), parsing_weight(body)
            body = await services_of(request).parsing.run(holder_of(request), pieces, weight)
    path = "projects", project, "events"
    return raw_answer(await forward(request, "the project", *path, method="POST", content=body), 202)


@reading.get("/{id}", response_model=EventAnswer, operation_id="getEvent")
@needs(READ)
async def get_event(request: Request, id: str, project: ProjectQuery = None) -> Response:  # noqa: A002
    """Show one event with its body and its deliveries, the newest 100 first.

    An event without a subscriber is stored only if the Project has `missedEvents: Keep`.
    """
    name = optional_project(request, project)
    if not _EVENT_ID.fullmatch(id):
        raise not_found("the event")
    return raw_answer(await forward(request, "the event", "events", id, params={"project": name}))
