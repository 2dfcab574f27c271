"""Replays of an endpoint: counted first, then begun; shown with their progress, and cancelled."""

from typing import Any, Final

from starlette.responses import Response

from hookwright_api.console.delivery_filters import PERIOD_TITLES, DeliveryFilters
from hookwright_api.console.form_fields import Form, validated
from hookwright_api.console.page_route import action, page
from hookwright_api.console.visit import Visit, attempt
from hookwright_api.routes.operator_routes import begin_replay, cancel_replay, list_replays
from hookwright_crds.documents.replay_bodies import ReplayRequest
from hookwright_runtime.problems import FieldFault, invalid

_REPLAYS: Final = "/projects/{project}/endpoints/{endpoint}/replays"
STATES: Final = {
    "failed": "Failed deliveries",
    "delivered": "Delivered deliveries",
    "all": "Failed and delivered ones",
    "missed": "Missed events",
}
"""The selections of a replay in words."""


@page(_REPLAYS, uses=(list_replays,))
async def show_replays(visit: Visit) -> Response:
    """Show the latest replays, and the form for a new one."""
    return await _page(visit, None)


async def _page(visit: Visit, count: dict[str, Any] | None) -> Response:
    listing, problem = await attempt(visit.call_endpoint(list_replays))
    return visit.render(
        "replays.html",
        form=Form({"period": ["24h"], **visit.form}),
        replays=listing["data"] if listing else [],
        unavailable=problem,
        count=count,
        states=STATES,
        periods=PERIOD_TITLES,
        event_types=dict.fromkeys([*visit.event_types, *visit.form.all("types")]),
    )


@action(_REPLAYS, uses=(begin_replay, list_replays), again=show_replays)
async def make_replay(visit: Visit) -> Response:
    """Count the deliveries of a replay; begin it if the person has seen the count."""
    is_counted = bool(visit.form.raw("begin"))
    filters = DeliveryFilters.of({name: visit.form.raw(name) for name in visit.form})
    times = filters.conditions(visit.services.now())
    if "since" not in times:
        raise invalid(FieldFault("since", "is missing; choose a period or a time"))
    document = {
        **times,
        "state": visit.form.text("state"),
        "types": visit.form.all("types"),
        "dry_run": not is_counted,
    }
    request = validated(ReplayRequest, {name: value for name, value in document.items() if value})
    answer = await visit.call_endpoint(begin_replay, request)
    return visit.see(f"{visit.here}/replays", notice="replay-begun") if is_counted else await _page(visit, answer)


@action(_REPLAYS + "/{replay}/cancel", uses=(cancel_replay,))
async def stop_replay(visit: Visit) -> Response:
    """Cancel a replay."""
    await visit.call_endpoint(cancel_replay, visit.request.path_params["replay"])
    return visit.see(f"{visit.here}/replays", notice="replay-cancelled")
