"""The page "Get started" of a project: from nothing to the first delivery, by a key, an endpoint and an event."""

from typing import Any, Final

from starlette.responses import Response

from hookwright_api.console.form_fields import validated
from hookwright_api.console.page_route import action, page
from hookwright_api.console.routes.deliveries import rows_of
from hookwright_api.console.routes.endpoints import endpoint_by_form
from hookwright_api.console.visit import Visit, attempt
from hookwright_api.console.webhook_form import FIELDS
from hookwright_api.routes.operator_routes import search_deliveries
from hookwright_api.routes.webhook_creation import create_webhook
from hookwright_crds.documents.webhook_bodies import WebhookRequest
from hookwright_crds.events import EVERY_TYPE, expanded

_START: Final = "/projects/{project}/start"


@page(_START, uses=(search_deliveries,))
async def show_start(visit: Visit) -> Response:
    """Show the steps. While an event is missing, the page asks for them again."""
    return await steps_page(visit, since=visit.query.get("since", ""))


async def steps_page(visit: Visit, *, since: str = "", key: dict[str, Any] | None = None) -> Response:
    """Return the page with the steps, and where the newest event went.

    Args:
        visit: of a project.
        since: the time after which the event is awaited; empty: any event of the log counts.
        key: the answer of ``/v1`` with a new key, which no other page shows.
    """
    project = visit.project.identity
    listing, unavailable = await attempt(visit.call(search_deliveries, project=project.name, since=since or None))
    rows = rows_of(visit, listing["data"] if listing else (), project.name)
    events = [row for row in rows if not row["test"]]
    deliveries = [delivery for delivery in events if delivery["event_id"] == events[0]["event_id"]]
    subscribed_types = expanded(name for record in visit.endpoints for name in record.endpoint.spec.events)
    sent_types = [name for name, document in visit.event_types.items() if document["wildcards"]]
    return visit.render(
        "start.html",
        201 if key else 0,
        fields=FIELDS,
        keys=len(visit.services.view.keys.find("project", (project.namespace, project.name))),
        endpoints=visit.endpoints,
        key=key,
        since=since,
        event_type=next((name for name in sent_types if name in subscribed_types), sent_types[0]),
        deliveries=deliveries,
        unavailable=unavailable,
        is_waiting=not deliveries
        or any(
            delivery["status"] == "pending"
            and not delivery["attempts"]
            and (delivery["endpoint"] is None or delivery["endpoint"].endpoint.spec.pull is None)
            for delivery in deliveries
        ),
        with_endpoints=True,
        again_path="",
    )


@action(_START, uses=(create_webhook, search_deliveries), again=show_start)
async def make_first_endpoint(visit: Visit) -> Response:
    """Create an endpoint that gets every event, and show the steps again."""
    body = validated(WebhookRequest, {"url": visit.form.text("url"), "events": [EVERY_TYPE]})
    await endpoint_by_form(visit, body)
    return await show_start(visit)
