"""The catalogue of event types, and the AsyncAPI description of a project's webhooks."""

from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic_core import to_json

from hookwright_api.auth.permissions import READ
from hookwright_api.http.asyncapi import asyncapi_document
from hookwright_api.http.guarded_route import GuardedRoute, caller_of, needs
from hookwright_api.http.responses import answer, raw_answer
from hookwright_api.routes.scoping import ProjectQuery, one_project
from hookwright_api.schemas.event_type_bodies import AsyncapiAnswer, EventTypesAnswer
from hookwright_api.services import services_of
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


@router.get("/asyncapi.json", response_model=AsyncapiAnswer, operation_id="getAsyncapi")
@needs(READ)
async def get_asyncapi(request: Request, project: ProjectQuery = None) -> Response:
    """Describe the requests that the receivers of a project get, as AsyncAPI 3.0.0.

    The document has a channel for each webhook, at most 100. `info.description` says if there are more.
    """
    name = one_project(request, project)
    found = services_of(request).view.endpoints.find("project", (caller_of(request).organization, name))
    return answer(asyncapi_document(name, request.app.version, [record.endpoint for record in found]))
