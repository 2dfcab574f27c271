"""Recoveries: everything of an endpoint that failed since a time is sent again, as a job whose progress is told."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse

from hookwright_operator.intake import exactjson
from hookwright_operator.intake.asgi import Bodies, client_of, headers_of
from hookwright_operator.intake.auth import permit
from hookwright_operator.intake.deps import Deps
from hookwright_operator.intake.places import Places
from hookwright_operator.intake.problems import FieldFault, ProblemError, not_found
from hookwright_operator.intake.routes.deliveries import timestamp
from hookwright_operator.intake.routes.endpoints import endpoint_access, endpoint_of
from hookwright_operator.store.model import Recovery

MAX_BODY_BYTES: Final = 4096

_TIMESTAMP: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_ID: Final = re.compile(r"[0-9A-Za-z_]{1,64}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_EXPECTED: Final = "give a time with its zone (RFC 3339), such as 2030-01-31T12:00:00Z"


class Recoveries:
    """Routes of the jobs of one endpoint."""

    def __init__(self, deps: Deps, bodies: Bodies, places: Places) -> None:
        self._deps = deps
        self._bodies = bodies
        self._places = places

    async def begin(self, request: Request) -> JSONResponse:
        """Begin a job from ``{since, until?}``: 202 with the job, 409 while another one runs."""
        access = endpoint_access(request, "create", "retry")
        await permit(self._deps.auth, request.headers, access, client_of(request.scope))
        endpoint = endpoint_of(self._deps.registry, request)
        headers = headers_of(request.scope)
        body = await self._bodies.read(request.receive, headers, endpoint.namespace, limit=MAX_BODY_BYTES)
        since_ms, until_ms = span_of(body, now_ms=self._deps.recoveries.now_ms())
        with self._places.held(endpoint.namespace):
            job, new = await self._deps.recoveries.begin(endpoint.uid, since_ms=since_ms, until_ms=until_ms)
        if not new:
            raise ProblemError(
                409, f'WebhookEndpoint "{endpoint.name}" has a recovery that is running, {job.id}; wait until it ends'
            )
        location = f"{request.url.path.removesuffix('/recover')}/recoveries/{job.id}"
        return JSONResponse(document(job), status_code=202, headers={"Location": location})

    async def one(self, request: Request) -> JSONResponse:
        """Tell how far a job of an endpoint has come."""
        access = endpoint_access(request, "get", "deliveries")
        await permit(self._deps.auth, request.headers, access, client_of(request.scope))
        endpoint = endpoint_of(self._deps.registry, request)
        wanted = request.path_params["recovery"]
        with self._places.held(endpoint.namespace):
            job = await self._deps.recoveries.find(wanted) if _ID.fullmatch(wanted) else None
        if job is None or job.endpoint_uid != endpoint.uid:
            raise not_found(f'recovery "{wanted}" of WebhookEndpoint "{endpoint.name}"')
        return JSONResponse(document(job))


def span_of(body: bytes, *, now_ms: int) -> tuple[int, int | None]:
    """Return since and until in milliseconds since the epoch, until None where the body has none.

    Raises:
        ProblemError: 400 malformed JSON; 422 with each fault.
    """
    try:
        given = exactjson.loads(body)
    except exactjson.JsonError as error:
        raise ProblemError(400, f"the body is no JSON text: {error}") from None
    if not isinstance(given, dict):
        raise ProblemError(422, "the body must be a JSON object {since, until?}", errors=(FieldFault("", _EXPECTED),))
    faults = [FieldFault(name, "is unknown; give since and until") for name in given if name not in ("since", "until")]
    since_ms = _time(given, "since", faults)
    until_ms = _time(given, "until", faults) if given.get("until") is not None else None
    if since_ms is not None and since_ms > now_ms:
        faults.append(FieldFault("since", f"lies in the future; it is {timestamp(now_ms)} now"))
    if since_ms is not None and until_ms is not None and until_ms < since_ms:
        faults.append(FieldFault("until", "lies before since"))
    if faults or since_ms is None:
        raise ProblemError(422, "no recovery was begun", errors=tuple(faults))
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


def document(job: Recovery) -> dict[str, object]:
    """Return a job as it is told."""
    told: dict[str, object] = {
        "id": job.id,
        "status": job.state,
        "since": timestamp(job.since_ms),
        "until": timestamp(job.until_ms),
        "total": job.total,
        "done": job.done,
        "begunAt": timestamp(job.begun_ms),
    }
    return told if job.ended_ms is None else {**told, "endedAt": timestamp(job.ended_ms)}
