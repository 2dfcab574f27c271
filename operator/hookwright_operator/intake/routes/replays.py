"""Replays: send all failed deliveries of an endpoint since a time again, with visible progress."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from hookwright_operator.intake import exact_json
from hookwright_operator.intake.asgi import headers_of
from hookwright_operator.intake.auth import ReviewAuth
from hookwright_operator.intake.places import Places
from hookwright_operator.intake.routes.deliveries import timestamp
from hookwright_operator.intake.routes.endpoints import ENDPOINT, permitted_endpoint
from hookwright_operator.services import IntakeServices
from hookwright_operator.store.records import Replay
from hookwright_runtime.problems import FieldFault, ProblemError, not_found
from hookwright_runtime.request_body import Bodies

MAX_BODY_BYTES: Final = 4096

_TIMESTAMP: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_ID: Final = re.compile(r"[0-9A-Za-z_]{1,64}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_EXPECTED: Final = "send a time with its zone (RFC 3339), such as 2030-01-31T12:00:00Z"


class ReplayRoutes:
    """Routes of the replays of one endpoint."""

    def __init__(self, services: IntakeServices, auth: ReviewAuth, bodies: Bodies, places: Places) -> None:
        self._services, self._auth = services, auth
        self._bodies = bodies
        self._places = places

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route(f"{ENDPOINT}/recover", self.begin, methods=["POST"]),
            Route(f"{ENDPOINT}/recoveries/{{replay}}", self.one),
        ]

    async def begin(self, request: Request) -> JSONResponse:
        """Begin a replay from ``{since, until?}``: 202 with the replay, 409 if another one runs."""
        endpoint = await permitted_endpoint(self._services, self._auth, request, "create", "retry")
        headers = headers_of(request.scope)
        holder = f'namespace "{endpoint.namespace}"'
        body = await self._bodies.read(request.receive, headers, holder, limit=MAX_BODY_BYTES)
        since_ms, until_ms = span_of(body, now_ms=self._services.replays.clock_ms())
        with self._places.held(endpoint.namespace):
            replay, new = await self._services.replays.begin(endpoint.uid, since_ms=since_ms, until_ms=until_ms)
        if not new:
            raise ProblemError(
                409, f'WebhookEndpoint "{endpoint.name}" has a running replay, {replay.id}; wait until it ends'
            )
        location = f"{request.url.path.removesuffix('/recover')}/recoveries/{replay.id}"
        return JSONResponse(document(replay), status_code=202, headers={"Location": location})

    async def one(self, request: Request) -> JSONResponse:
        """Return the progress of a replay of an endpoint."""
        endpoint = await permitted_endpoint(self._services, self._auth, request, "get", "deliveries")
        wanted = request.path_params["replay"]
        with self._places.held(endpoint.namespace):
            replay = await self._services.replays.find(wanted) if _ID.fullmatch(wanted) else None
        if replay is None or replay.endpoint_uid != endpoint.uid:
            raise not_found(f'replay "{wanted}" of WebhookEndpoint "{endpoint.name}"')
        return JSONResponse(document(replay))


def span_of(body: bytes, *, now_ms: int) -> tuple[int, int | None]:
    """Return since and until in milliseconds since the epoch; until is None if the body has none.

    Raises:
        ProblemError: 400 malformed JSON; 422 with each fault.
    """
    try:
        given = exact_json.loads(body)
    except exact_json.JsonError as error:
        raise ProblemError(400, f"the body is not a JSON text: {error}") from None
    if not isinstance(given, dict):
        raise ProblemError(422, "the body must be a JSON object {since, until?}", errors=(FieldFault("", _EXPECTED),))
    faults = [FieldFault(name, "is unknown; send since and until") for name in given if name not in ("since", "until")]
    since_ms = _time(given, "since", faults)
    until_ms = _time(given, "until", faults) if given.get("until") is not None else None
    if since_ms is not None and since_ms > now_ms:
        faults.append(FieldFault("since", f"is in the future; the time is now {timestamp(now_ms)}"))
    if since_ms is not None and until_ms is not None and until_ms < since_ms:
        faults.append(FieldFault("until", "is before since"))
    if faults or since_ms is None:
        raise ProblemError(422, "no replay was started", errors=tuple(faults))
    return since_ms, until_ms


def _time(given: Mapping[str, object], field: str, faults: list[FieldFault]) -> int | None:
    written = given.get(field)
    if isinstance(written, str) and _TIMESTAMP.fullmatch(written):
        try:
            return (datetime.fromisoformat(written.upper()) - _EPOCH) // _MILLISECOND
        except ValueError:
            pass
    faults.append(FieldFault(field, f"is {'missing' if written is None else 'wrong'}; {_EXPECTED}"))
    return None


def document(replay: Replay) -> dict[str, object]:
    """Return a replay in the form of the answer."""
    told: dict[str, object] = {
        "id": replay.id,
        "status": replay.state,
        "since": timestamp(replay.since_ms),
        "until": timestamp(replay.until_ms),
        "total": replay.total,
        "done": replay.done,
        "begunAt": timestamp(replay.begun_ms),
    }
    return told if replay.ended_ms is None else {**told, "endedAt": timestamp(replay.ended_ms)}
