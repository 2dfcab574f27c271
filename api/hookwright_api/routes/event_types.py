"""The catalogue of event types."""

from typing import Any, Final

from fastapi import APIRouter, Response
from pydantic_core import to_json

from hookwright_api.auth.permissions import READ
from hookwright_api.http.guarded_route import GuardedRoute, needs
from hookwright_api.http.responses import raw_answer
from hookwright_api.schemas.event_type_bodies import EventTypesAnswer
from hookwright_crds.events import CATALOGUE, example, wildcards_of

router = APIRouter(prefix="/v1", tags=["events"], route_class=GuardedRoute)


def _catalogue() -> list[dict[str, Any]]:
    return [
        {
            "type": name,
            "channel": channel,
            "meaning": meaning,
            "example": example(name),
            "wildcards": wildcards_of(name),
        }
        for channel, types in CATALOGUE.items()
        for name, meaning in types.items()
    ]


_EVENT_TYPES: Final = to_json({"data": _catalogue()})


@router.get("/event-types", response_model=EventTypesAnswer, operation_id="listEventTypes")
@needs(READ)
async def list_event_types() -> Response:
    """List every event type, with its channel, its meaning, an example and the wildcards that include it."""
    return raw_answer(_EVENT_TYPES)
