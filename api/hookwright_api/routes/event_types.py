"""The catalogue of event types."""

from typing import Final

from fastapi import APIRouter, Response
from pydantic_core import to_json

from hookwright_api.http.request_checks import GuardedRoute, needs
from hookwright_api.http.responses import raw_answer
from hookwright_crds.documents.event_bodies import EventTypesAnswer
from hookwright_crds.events import described_types
from hookwright_crds.permissions import READ

router = APIRouter(prefix="/v1", tags=["events"], route_class=GuardedRoute)


_EVENT_TYPES: Final = to_json({"data": described_types()})


@router.get("/event-types", response_model=EventTypesAnswer, operation_id="listEventTypes")
@needs(READ)
async def list_event_types() -> Response:
    """List every event type, with its channel, its meaning, an example and the wildcards that include it."""
    return raw_answer(_EVENT_TYPES)
