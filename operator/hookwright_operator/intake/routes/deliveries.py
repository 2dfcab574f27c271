"""The delivery log of an endpoint, and the retry of one delivery by hand."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from hookwright_operator.intake.asgi import client_of
from hookwright_operator.intake.auth import Access, ReviewAuth
from hookwright_operator.intake.log_reads import LogReads
from hookwright_operator.intake.places import OTHER_REQUESTS, OTHER_REQUESTS_OF_NAMESPACE, Places
from hookwright_operator.intake.routes.endpoints import ENDPOINT, NAMESPACE, permitted_endpoint
from hookwright_operator.registry import Endpoint
from hookwright_operator.services import IntakeServices
from hookwright_operator.services.delivery_log import is_cursor
from hookwright_operator.store.records import Attempt, DeliveryRecord, State
from hookwright_runtime.problems import FieldFault, ProblemError, not_found

MAX_LIMIT: Final = 250
"""Most deliveries on one page."""
DEFAULT_LIMIT: Final = 50

_ID: Final = re.compile(r"[0-9A-Za-z_.=-]{1,128}")
"""Form of ids; the store is not asked for other texts."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class DeliveryRoutes:
    """Routes of the delivery log."""

    def __init__(self, services: IntakeServices, auth: ReviewAuth, places: Places) -> None:
        self._services, self._auth = services, auth
        self._places = places
        self._reads = LogReads()
        self._of_callers = Places("requests for a delivery", total=OTHER_REQUESTS, each=OTHER_REQUESTS // 2)
        self._of_namespaces = Places("requests for a delivery", total=OTHER_REQUESTS, each=OTHER_REQUESTS_OF_NAMESPACE)

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route(f"{ENDPOINT}/deliveries", self.page),
            Route(f"{ENDPOINT}/deliveries/{{delivery}}", self.one),
            Route(f"{NAMESPACE}/deliveries/{{delivery}}", self.find),
            Route(f"{NAMESPACE}/deliveries/{{delivery}}/retry", self.retry, methods=["POST"]),
        ]

    async def page(self, request: Request) -> JSONResponse:
        """Return an endpoint's deliveries, the newest first: ``{data, next}``; a page may be short or empty."""
        endpoint = await permitted_endpoint(self._services, self._auth, request, "get", "deliveries")
        state, limit, cursor = page_of(request.query_params.get)
        async with self._reads.turn(endpoint.namespace):
            records, following = await self._services.delivery_log.page(
                endpoint.uid, state=state, limit=limit, cursor=cursor
            )
        return JSONResponse({"data": [document(record) for record in records], "next": following})

    async def one(self, request: Request) -> JSONResponse:
        """Return one delivery of an endpoint."""
        endpoint = await permitted_endpoint(self._services, self._auth, request, "get", "deliveries")
        with self._places.held(endpoint.namespace):
            record = await self._find(request)
        if record is None or record.endpoint_uid != endpoint.uid:
            raise _no_delivery(request)
        return JSONResponse(document(record))

    async def find(self, request: Request) -> JSONResponse:
        """Return one delivery of the namespace (``?project=``: only of that project)."""
        async with self._permitted_delivery(request, "get", "deliveries") as record:
            return JSONResponse(document(record))

    async def retry(self, request: Request) -> JSONResponse:
        """Send a failed or delivered delivery again (``?project=``: only of that project): 202 ``{id, status}``."""
        async with self._permitted_delivery(request, "create", "retry") as record:
            if not await self._services.delivery_log.retry(record):
                raise ProblemError(
                    409,
                    f"delivery {record.id} is {record.state}; only a failed or delivered delivery can be sent again",
                )
            return JSONResponse({"id": record.id, "status": State.PENDING}, status_code=202)

    @asynccontextmanager
    async def _permitted_delivery(self, request: Request, verb: str, subresource: str) -> AsyncIterator[DeliveryRecord]:
        """Hold slots of the caller and yield the delivery of the path, if ``?project=`` is absent or its project.

        Raises:
            ProblemError: 401 or 403; 404, there is no such delivery; 503, no slot is free.
            KubeError: the API server cannot review the token or the permission.
        """
        namespace = request.path_params["namespace"]
        authorization = request.headers.get("authorization", "")
        caller = await self._auth.authenticate(authorization, client_of(request.scope))
        # The caller is not authorized yet, so its requests must not count for the namespace only.
        with self._of_callers.held(caller.username), self._of_namespaces.held(f"{namespace} of {caller.username}"):
            record = await self._find(request)
            endpoint = self._endpoint_in(namespace, record, request.query_params.get("project"))
            # A delivery that does not exist is refused like one of an endpoint for which the caller has no permission.
            name = endpoint.name if endpoint else ""
            await self._auth.authorise(caller, Access(verb, "webhookendpoints", subresource, namespace, name))
            if record is None or endpoint is None:
                raise _no_delivery(request)
            yield record

    async def _find(self, request: Request) -> DeliveryRecord | None:
        wanted = request.path_params["delivery"]
        return await self._services.delivery_log.find(wanted) if _ID.fullmatch(wanted) else None

    def _endpoint_in(self, namespace: str, record: DeliveryRecord | None, project: str | None) -> Endpoint | None:
        """Return the endpoint of a delivery if it is in the namespace and, if a project is given, in the project."""
        endpoint = self._services.registry.get(record.endpoint_uid) if record else None
        if endpoint is None or endpoint.namespace != namespace or project not in (None, endpoint.project):
            return None
        return endpoint


def page_of(query: Callable[[str], str | None]) -> tuple[State | None, int, str | None]:
    """Return status, limit and cursor of the query.

    Raises:
        ProblemError: 422, with each fault.
    """
    faults = []
    status, limit, cursor = query("status"), query("limit") or str(DEFAULT_LIMIT), query("cursor")
    if status and status not in set(State):
        faults.append(FieldFault("status", f"is unknown; send one of {', '.join(State)}"))
    if not re.fullmatch("[0-9]{1,4}", limit) or not 1 <= int(limit) <= MAX_LIMIT:
        faults.append(FieldFault("limit", f"is wrong; send a number from 1 to {MAX_LIMIT}"))
    if cursor and not is_cursor(cursor):
        faults.append(FieldFault("cursor", "must be the `next` of a page; omit it to begin with the newest delivery"))
    if faults:
        raise ProblemError(422, "the query is wrong", errors=tuple(faults))
    return State(status) if status else None, int(limit), cursor or None


def document(record: DeliveryRecord) -> dict[str, object]:
    """Return a delivery in the form of the log."""
    told: dict[str, object] = {
        "id": record.id,
        "eventId": record.event_id,
        "type": record.event_type,
        "status": record.state,
        "reason": record.reason,
        "acceptedAt": timestamp(record.accepted_ms),
        "attempts": [_attempt(attempt) for attempt in record.attempts],
    }
    return {**told, "nextAttemptAt": timestamp(record.due_ms)} if record.state is State.PENDING else told


def _attempt(attempt: Attempt) -> dict[str, object]:
    return {
        "number": attempt.number,
        "startedAt": timestamp(attempt.started_ms),
        "durationMs": attempt.duration_ms,
        "statusCode": attempt.status_code,
        "error": attempt.error,
        "response": attempt.response,
    }


def timestamp(epoch_ms: int) -> str:
    """Return an RFC 3339 time in UTC with milliseconds."""
    moment = _EPOCH + timedelta(milliseconds=epoch_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _no_delivery(request: Request) -> ProblemError:
    return not_found(f'delivery "{request.path_params["delivery"]}" in namespace "{request.path_params["namespace"]}"')
