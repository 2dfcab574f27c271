"""Replays: send deliveries of an endpoint again, with visible progress."""

import re
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from hookwright_crds.documents.replay_bodies import BegunReplayAnswer, ReplayAnswer, ReplayRequest, ReplaysAnswer
from hookwright_crds.events import EVERY_TYPE, is_operational
from hookwright_crds.operations import Right
from hookwright_crds.timestamps import time_of, timestamp
from hookwright_operator.intake.context import IntakeContext, check_not_expired
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.chosen_replays import Wanted
from hookwright_operator.store.records import Choice, Replay, ReplayState, State
from hookwright_operator.store.sql.replay import latest_replays
from hookwright_runtime.problems import FieldFault, ProblemError, not_found

MAX_BODY_BYTES: Final = 16_384

_ID: Final = re.compile(r"[0-9A-Za-z_]{1,64}")
_STATES: Final = {
    "failed": (State.FAILED,),
    "delivered": (State.DELIVERED,),
    "all": (State.DELIVERED, State.FAILED),
    "missed": (),
}
"""The states of deliveries by the field ``state`` of a request; missed events have no deliveries."""
_NAMES: Final = {states: name for name, states in _STATES.items()}


async def begin(intake: IntakeContext, request: Request, right: Right) -> BegunReplayAnswer | Response:
    """Begin a replay: 202 with the replay, 409 if another runs.

    With ``dry_run``, the answer is 200 with the number of deliveries, and nothing is sent.
    """
    endpoint, caller = await intake.endpoint(request, right)
    check_not_expired(endpoint)
    now_ms = intake.services.replays.clock_ms()
    body = await intake.document(request, ReplayRequest, MAX_BODY_BYTES)
    selection = _wanted(intake, body, endpoint, now_ms)
    with await intake.reads.acquire(endpoint.namespace):
        if body.dry_run:
            total, exact = await intake.services.store.chosen_replays.count(selection)
            fields = _chosen(selection.choice, selection.since_ms, selection.until_ms, total, exact=exact)
            answer = BegunReplayAnswer(dry_run=True, **fields)
            return Response(answer.json_bytes(), media_type="application/json")
        replay, new = await intake.services.replays.begin(selection)
    if not new:
        running = f'WebhookEndpoint "{endpoint.name}" has a running replay, {replay.id}'
        raise ProblemError(409, f"{running}; wait until it ends, or cancel it")
    intake.audit(request, "endpoint.replay", caller, endpoint)
    headers = {"Location": f"{request.url.path}/{replay.id}"}
    return Response(BegunReplayAnswer(**_fields(replay)).json_bytes(), 202, headers, media_type="application/json")


async def show_latest(intake: IntakeContext, request: Request, right: Right) -> ReplaysAnswer:
    """Return the latest replays of an endpoint, the newest first."""
    endpoint, _ = await intake.endpoint(request, right)
    with await intake.places.acquire(endpoint.namespace):
        replays = await intake.services.store.read_log(latest_replays, endpoint.uid)
    return ReplaysAnswer(data=[ReplayAnswer(**_fields(replay)) for replay in replays])


async def show(intake: IntakeContext, request: Request, right: Right) -> ReplayAnswer:
    """Return the progress of a replay of an endpoint."""
    endpoint, _ = await intake.endpoint(request, right)
    return ReplayAnswer(**_fields(await _find(intake, request, endpoint)))


async def cancel(intake: IntakeContext, request: Request, right: Right) -> Response:
    """Cancel a replay: 204, also if it is cancelled already; 409 if it is completed."""
    endpoint, caller = await intake.endpoint(request, right)
    replay = await _find(intake, request, endpoint)
    if replay.state is ReplayState.RUNNING:
        with await intake.places.acquire(endpoint.namespace):
            await intake.services.store.chosen_replays.cancel(replay.id)
        replay = await _find(intake, request, endpoint)
        if replay.state is ReplayState.CANCELLED:
            intake.audit(request, "replay.cancel", caller, endpoint, target=replay.id)
    if replay.state is ReplayState.COMPLETED:
        raise ProblemError(409, f"replay {replay.id} is completed; only a running replay can be cancelled")
    return Response(status_code=204)


async def _find(intake: IntakeContext, request: Request, endpoint: Endpoint) -> Replay:
    replay_id = request.path_params["replay"]
    with await intake.places.acquire(endpoint.namespace):
        replay = await intake.services.store.replay(replay_id) if _ID.fullmatch(replay_id) else None
    if replay is None or replay.endpoint_uid != endpoint.uid:
        raise not_found(f'replay "{replay_id}" of WebhookEndpoint "{endpoint.name}"')
    return replay


def _wanted(intake: IntakeContext, body: ReplayRequest, endpoint: Endpoint, now_ms: int) -> Wanted:
    """Return the deliveries to send; a replay of missed events names its types, and begins after the project.

    Raises:
        ProblemError: 404, the project does not exist; 422, the range is in the future or before the project, or the
            endpoint subscribes to none of the types.
    """
    choice, since_ms = Choice(_STATES[body.state], tuple(sorted(set(body.types)))), time_of(body.since) or 0
    until_ms = now_ms if body.until is None else min(time_of(body.until) or 0, now_ms)
    if since_ms > now_ms:
        raise _refusal("since", f"is in the future; the time is now {timestamp(now_ms)}")
    namespace, project, registry = endpoint.namespace, endpoint.project, intake.services.registry
    if choice.missed:
        # Without a choice of types, every type includes own types that no longer exist.
        is_any = EVERY_TYPE in endpoint.events and not choice.types
        names = () if is_any else sorted(choice.types or endpoint.events)
        # An operational event that the endpoint does not have is one about itself.
        types = [name for name in names if endpoint.subscribes_to(name) and not is_operational(name)]
        if not types and not is_any:
            message = f'WebhookEndpoint "{endpoint.name}" subscribes to none of these types'
            raise _refusal("types", f"{message}; it has missed no event of them")
        settings = registry.project(namespace, project)
        if settings is None:
            raise not_found(f'Project "{project}" in namespace "{namespace}"')
        if until_ms < settings.created_ms:
            created_at = timestamp(settings.created_ms)
            raise _refusal("until", f'Project "{project}" was created at {created_at}; choose a later time')
        choice, since_ms = choice._replace(types=tuple(types)), max(since_ms, settings.created_ms)
    return Wanted(endpoint.uid, choice, since_ms, until_ms, (namespace, project))


def _refusal(field: str, message: str) -> ProblemError:
    return ProblemError(422, "no replay was started", errors=(FieldFault(field, message),))


def _fields(replay: Replay) -> dict[str, Any]:
    return {
        "id": replay.id,
        "status": replay.state.value,
        **_chosen(replay.choice, replay.since_ms, replay.until_ms, replay.total, exact=replay.total_is_exact),
        "done": replay.done,
        "begun_at": timestamp(replay.begun_ms),
        "ended_at": None if replay.ended_ms is None else timestamp(replay.ended_ms),
    }


def _chosen(choice: Choice, since_ms: int, until_ms: int, total: int, *, exact: bool) -> dict[str, Any]:
    return {
        "since": timestamp(since_ms),
        "until": timestamp(until_ms),
        "state": _NAMES[choice.states],
        "types": list(choice.types),
        "total": total,
        "total_is_exact": exact,
    }
