"""Replays: send deliveries of an endpoint again, with visible progress."""

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hookwright_operator.intake.asgi import headers_of
from hookwright_operator.intake.auth import ReviewAuth
from hookwright_operator.intake.replay_body import STATES, ReplayBody, replay_of
from hookwright_operator.intake.routes.endpoints import ENDPOINT, audit, check_not_expired, permitted_endpoint
from hookwright_operator.intake.timestamps import timestamp
from hookwright_operator.registry import Endpoint
from hookwright_operator.services import IntakeServices
from hookwright_operator.store.chosen_replays import Wanted
from hookwright_operator.store.records import Choice, Replay, ReplayState
from hookwright_runtime.places import Places
from hookwright_runtime.problems import FieldFault, ProblemError, not_found
from hookwright_runtime.request_body import Bodies

MAX_BODY_BYTES: Final = 4096

_ID: Final = re.compile(r"[0-9A-Za-z_]{1,64}")
_STATE_OF: Final = {states: name for name, states in STATES.items()}


class ReplayRoutes:
    """Routes of the replays of one endpoint."""

    def __init__(
        self, services: IntakeServices, auth: ReviewAuth, bodies: Bodies, places: Places, reads: Places
    ) -> None:
        self._services, self._auth = services, auth
        self._bodies = bodies
        self._places, self._reads = places, reads

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route(f"{ENDPOINT}/replays", self.begin, methods=["POST"]),
            Route(f"{ENDPOINT}/replays", self.latest),
            Route(f"{ENDPOINT}/replays/{{replay}}", self.one),
            Route(f"{ENDPOINT}/replays/{{replay}}", self.cancel, methods=["DELETE"]),
        ]

    async def begin(self, request: Request) -> JSONResponse:
        """Begin a replay from ``{since, until?, state?, types?, dry_run?}``: 202 with the replay, 409 if another runs.

        With ``dry_run``, the answer is 200 with the number of deliveries, and nothing is sent.
        """
        endpoint, caller = await permitted_endpoint(self._services, self._auth, request, "create", "retry")
        check_not_expired(endpoint)
        now_ms = self._services.replays.clock_ms()
        body = replay_of(await self._body(request, endpoint), now_ms=now_ms)
        until_ms = now_ms if body.until_ms is None else min(body.until_ms, now_ms)
        body = body._replace(choice=_of_subscribed(body.choice, endpoint))
        project = (endpoint.namespace, endpoint.project)
        since_ms = self._since_ms(body, endpoint, until_ms)
        wanted = Wanted(endpoint.uid, body.choice, since_ms, until_ms, project)
        with await self._reads.acquire(endpoint.namespace):
            if body.dry_run:
                return JSONResponse(await self._counted(body, wanted))
            replay, new = await self._services.replays.begin(wanted)
        _check_new(replay, endpoint, new=new)
        audit(self._services, request, "endpoint.replay", caller, endpoint)
        headers = {"Location": f"{request.url.path}/{replay.id}"}
        return JSONResponse(document(replay), status_code=202, headers=headers)

    async def latest(self, request: Request) -> JSONResponse:
        """Return the latest replays of an endpoint, the newest first: ``{data}``."""
        endpoint, _ = await permitted_endpoint(self._services, self._auth, request, "get", "deliveries")
        with await self._places.acquire(endpoint.namespace):
            replays = await self._services.replays.latest(endpoint.uid)
        return JSONResponse({"data": [document(replay) for replay in replays]})

    async def one(self, request: Request) -> JSONResponse:
        """Return the progress of a replay of an endpoint."""
        endpoint, _ = await permitted_endpoint(self._services, self._auth, request, "get", "deliveries")
        return JSONResponse(document(await self._find(request, endpoint)))

    async def cancel(self, request: Request) -> Response:
        """Cancel a replay: 204, also if it is cancelled already; 409 if it is completed."""
        endpoint, caller = await permitted_endpoint(self._services, self._auth, request, "create", "retry")
        replay = await self._find(request, endpoint)
        if replay.state is ReplayState.RUNNING:
            with await self._places.acquire(endpoint.namespace):
                await self._services.replays.cancel(replay)
            replay = await self._find(request, endpoint)
            if replay.state is ReplayState.CANCELLED:
                audit(self._services, request, "replay.cancel", caller, endpoint, target=replay.id)
        if replay.state is ReplayState.COMPLETED:
            raise ProblemError(409, f"replay {replay.id} is completed; only a running replay can be cancelled")
        return Response(status_code=204)

    async def _body(self, request: Request, endpoint: Endpoint) -> bytes:
        holder = f'namespace "{endpoint.namespace}"'
        return await self._bodies.read(request.receive, headers_of(request.scope), holder, limit=MAX_BODY_BYTES)

    async def _find(self, request: Request, endpoint: Endpoint) -> Replay:
        wanted = request.path_params["replay"]
        with await self._places.acquire(endpoint.namespace):
            replay = await self._services.replays.find(wanted) if _ID.fullmatch(wanted) else None
        if replay is None or replay.endpoint_uid != endpoint.uid:
            raise not_found(f'replay "{wanted}" of WebhookEndpoint "{endpoint.name}"')
        return replay

    def _since_ms(self, body: ReplayBody, endpoint: Endpoint, until_ms: int) -> int:
        """Return the begin of a replay; that of missed events is never before the creation of the project.

        Raises:
            ProblemError: 404, the project does not exist; 422, the whole range is before its creation.
        """
        if not body.choice.missed:
            return body.since_ms
        registry = self._services.registry
        if not registry.has_project(endpoint.namespace, endpoint.project):
            raise not_found(f'Project "{endpoint.project}" in namespace "{endpoint.namespace}"')
        created_ms = registry.project_created_ms(endpoint.namespace, endpoint.project)
        if until_ms < created_ms:
            message = f'Project "{endpoint.project}" was created at {timestamp(created_ms)}; choose a later time'
            raise ProblemError(422, "no replay was started", errors=(FieldFault("until", message),))
        return max(body.since_ms, created_ms)

    async def _counted(self, body: ReplayBody, wanted: Wanted) -> dict[str, object]:
        total, exact = await self._services.replays.count(wanted)
        return {"dry_run": True, **_chosen(body.choice, wanted.since_ms, wanted.until_ms), **_total(total, exact=exact)}


def _of_subscribed(choice: Choice, endpoint: Endpoint) -> Choice:
    """Return the choice; that of missed events names the types to which the endpoint subscribes.

    Raises:
        ProblemError: 422, the endpoint subscribes to none of the chosen types.
    """
    if not choice.missed:
        return choice
    types = sorted(endpoint.events.intersection(choice.types) if choice.types else endpoint.events)
    if not types:
        message = f'WebhookEndpoint "{endpoint.name}" subscribes to none of these types; it has missed no event of them'
        raise ProblemError(422, "no replay was started", errors=(FieldFault("types", message),))
    return choice._replace(types=tuple(types))


def _check_new(replay: Replay, endpoint: Endpoint, *, new: bool) -> None:
    if not new:
        raise ProblemError(
            409,
            f'WebhookEndpoint "{endpoint.name}" has a running replay, {replay.id}; wait until it ends, or cancel it',
        )


def document(replay: Replay) -> dict[str, object]:
    """Return a replay as JSON."""
    return {
        "id": replay.id,
        "status": replay.state,
        **_chosen(replay.choice, replay.since_ms, replay.until_ms),
        **_total(replay.total, exact=replay.total_is_exact),
        "done": replay.done,
        "begun_at": timestamp(replay.begun_ms),
        "ended_at": None if replay.ended_ms is None else timestamp(replay.ended_ms),
    }


def _chosen(choice: Choice, since_ms: int, until_ms: int) -> dict[str, object]:
    return {
        "since": timestamp(since_ms),
        "until": timestamp(until_ms),
        "state": _STATE_OF[choice.states],
        "types": list(choice.types),
    }


def _total(total: int, *, exact: bool) -> dict[str, object]:
    return {"total": total, "total_is_exact": exact}
