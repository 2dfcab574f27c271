"""Events from producers outside the cluster, handed on to the operator as they are."""

from contextlib import suppress

from fastapi import APIRouter, Request, Response

from hookwright_api.answers import from_operator, raw_answer
from hookwright_api.errors import OperatorError
from hookwright_api.idempotency import EventsShapeError, check_key, with_event_ids
from hookwright_api.routes.keys import IdempotencyKey
from hookwright_api.routes.scoping import one_project
from hookwright_api.routing import EventsRoute, caller_of
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
    """Accept one event or an array of up to 1,000, all of them or none; 202 once they are safe.

    An event's `id` makes it repeatable for 24 hours; with an Idempotency-Key, events that have none
    get an id that follows from the key and their content.
    """
    organization, project = caller_of(request).organization, one_project(request, None)
    body = await request.body()
    key = check_key(idempotency_key)
    if key is not None:
        # What has not the shape of events goes on as it is: the operator says what is wrong with it.
        with suppress(EventsShapeError):
            body = with_event_ids(body, "events", organization, project, key)
    try:
        accepted = await services_of(request).intake.send_events(organization, project, body)
    except OperatorError as error:
        raise from_operator(error, "the project") from None
    return raw_answer(accepted, 202)
