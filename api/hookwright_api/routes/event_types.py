"""The event types, built in and of the caller's organization."""

from typing import Final

from fastapi import APIRouter, Request, Response
from pydantic_core import to_json

from hookwright_api.auth.callers import caller_of
from hookwright_api.http.request_checks import GuardedRoute, needs
from hookwright_api.http.responses import raw_answer
from hookwright_api.services import services_of
from hookwright_crds.documents.event_bodies import EventTypesAnswer
from hookwright_crds.events import described_types
from hookwright_crds.permissions import READ

router = APIRouter(prefix="/v1", tags=["events"], route_class=GuardedRoute)

_BUILT_IN: Final = [to_json(document) for document in described_types()]


@router.get("/event-types", response_model=EventTypesAnswer, operation_id="listEventTypes")
@needs(READ)
async def list_event_types(request: Request) -> Response:
    """List every event type, with its channel, its meaning, an example and the wildcards that include it.

    The built-in ones come first. An EventType of the organization, which YAML declares, has the channel `own`.
    """
    own_types = services_of(request).view.own_types(caller_of(request).organization)
    return raw_answer(b'{"data":[%b]}' % b",".join([*_BUILT_IN, *(record.rendered for record in own_types.values())]))
