"""Events from producers outside the cluster, forwarded unchanged to the operator."""

from contextlib import suppress

from fastapi import APIRouter, Request, Response

from hookwright_api.http.guarded_route import EventsRoute, caller_of
from hookwright_api.http.responses import from_operator, raw_answer
from hookwright_api.idempotency import EventsShapeError, check_key, with_event_ids
from hookwright_api.operator_client import OperatorError
from hookwright_api.routes.keys import IdempotencyKey
from hookwright_api.routes.scoping import one_project
from hookwright_api.schemas import EventsAnswer, event_schema
from hookwright_api.services import services_of

router = APIRouter(prefix="/v1/events", tags=["events"], route_class=EventsRoute)


@router.post(
    "",
    status_code=202,
    response_model=EventsAnswer,
    operation_id="sendEvents",
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/json": {"schema": event_schema()}}},
    },
)
async def send_events(request: Request, idempotency_key: IdempotencyKey = None) -> Response:
    """Accept one event or an array of up to 1,000, all or none; 202 after they are stored durably.

    An event with an `id` can be sent again for 24 hours without a second delivery. With an Idempotency-Key, an event
    without an id gets one that is derived from the key and the event's content.
    """
    organization, project = caller_of(request).organization, one_project(request, None)
    body = await request.body()
    key = check_key(idempotency_key)
    if key is not None:
        # A body without the form of events is forwarded unchanged, because the operator reports its faults.
        with suppress(EventsShapeError):
            body = with_event_ids(body, "events", organization, project, key)
    try:
        accepted = await services_of(request).intake.send_events(organization, project, body)
    except OperatorError as error:
        raise from_operator(error, "the project") from None
    return raw_answer(accepted, 202)
