"""Replays of an endpoint: counted first, then begun; shown with their progress, and cancelled."""

from datetime import timedelta
from typing import Any, Final

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from hookwright_api.console.delivery_filters import PERIODS, moment_of, rfc3339
from hookwright_api.console.form_fields import Form, faults_of
from hookwright_api.console.lookup import endpoint_of
from hookwright_api.console.navigation import endpoint_path
from hookwright_api.console.operations import attempt, call
from hookwright_api.console.page_route import ConsoleRoutes
from hookwright_api.console.templating import render, see
from hookwright_api.console.visits import form_of
from hookwright_api.routes.operator_routes import begin_replay, cancel_replay, list_replays
from hookwright_api.services import services_of
from hookwright_crds.documents.replay_bodies import ReplayRequest
from hookwright_crds.events import EVENT_TYPES
from hookwright_runtime.problems import FieldFault, ProblemError, invalid
from hookwright_runtime.validation import from_validation

console = ConsoleRoutes()

_REPLAYS: Final = "/projects/{project}/endpoints/{endpoint}/replays"
_SPANS: Final = {**PERIODS, "30d": ("Last 30 days", timedelta(days=30))}
_DEFAULT_STATE: Final = ReplayRequest.model_fields["state"].default
_FIELDS: Final = ("period", "since", "since_offset", "until", "until_offset", "state", "chosen_since", "chosen_until")


@console.page(_REPLAYS, uses=(list_replays,))
async def show_replays(request: Request) -> Response:
    """Show the latest replays, and the form for a new one."""
    return await _page(request, form=Form())


async def _page(
    request: Request, *, form: Form, problem: ProblemError | None = None, count: dict[str, Any] | None = None
) -> Response:
    project, endpoint = endpoint_of(request)
    listed = call(request, list_replays, endpoint.identity.name, project=project.identity.name)
    answered, unavailable = await attempt(listed)
    values = {name: form.text(name) for name in _FIELDS}
    return render(
        request,
        "replays.html",
        problem.status if problem else 200,
        project=project,
        endpoint=endpoint,
        replays=answered["data"] if answered else [],
        unavailable=unavailable,
        problem=problem,
        faults=faults_of(problem) if problem else {},
        values={**values, "period": values["period"] or "24h", "state": values["state"] or _DEFAULT_STATE},
        types=form.all("types"),
        count=count,
        spans=_SPANS,
        event_types=EVENT_TYPES,
    )


@console.action(_REPLAYS, uses=(begin_replay, list_replays))
async def make_replay(request: Request) -> Response:
    """Count the deliveries of a replay; begin it if the person has seen the count."""
    project, endpoint = endpoint_of(request)
    form = form_of(request)
    counted = form.flag("begin")
    try:
        body = _body(request, form, dry_run=not counted)
        answered = await call(request, begin_replay, endpoint.identity.name, body, project=project.identity.name)
    except ValidationError as error:
        return await _page(
            request, form=form, problem=from_validation(error.errors(include_url=False, include_input=False))
        )
    except ProblemError as problem:
        return await _page(request, form=form, problem=problem)
    if not counted:
        return await _page(request, form=form, count=answered)
    return see(request, endpoint_path(project.identity.name, endpoint.identity.name, "replays"), notice="replay-begun")


def _body(request: Request, form: Form, *, dry_run: bool) -> ReplayRequest:
    """Return the replay of a form; its second step has the exact times of the first one.

    Raises:
        ProblemError: 422, a time cannot be read.
        ValidationError: another field cannot be read.
    """
    since, until = form.text("chosen_since"), form.text("chosen_until")
    if not since:
        moment = form.text("since")
        if moment:
            since = rfc3339(moment_of("since", moment, form.text("since_offset")))
        elif (period := form.text("period")) in _SPANS:
            since = rfc3339(services_of(request).now() - _SPANS[period][1])
        else:
            raise invalid(FieldFault("since", "is missing; choose a period or a time"))
        if form.text("until"):
            until = rfc3339(moment_of("until", form.text("until"), form.text("until_offset")))
    wanted = {"since": since, "until": until or None, "state": form.text("state") or _DEFAULT_STATE, "dry_run": dry_run}
    return ReplayRequest.model_validate({**wanted, "types": form.all("types")})


@console.action(_REPLAYS + "/{replay}/cancel", uses=(cancel_replay,))
async def stop_replay(request: Request) -> Response:
    """Cancel a replay."""
    project, endpoint = endpoint_of(request)
    name, webhook = project.identity.name, endpoint.identity.name
    await call(request, cancel_replay, webhook, request.path_params["replay"], project=name)
    return see(request, endpoint_path(name, webhook, "replays"), notice="replay-cancelled")
