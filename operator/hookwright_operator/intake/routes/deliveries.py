"""The delivery log of an endpoint, and the retry of one delivery by hand."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from hookwright_crds.request_limits import DEFAULT_LIMIT, MAX_LIMIT
from hookwright_operator.intake.asgi import client_of
from hookwright_operator.intake.auth import Access, Producer, ReviewAuth
from hookwright_operator.intake.routes.endpoints import ENDPOINT, NAMESPACE, audit, hindrance, permitted_endpoint
from hookwright_operator.intake.timestamps import timestamp
from hookwright_operator.registry import Endpoint
from hookwright_operator.services import IntakeServices
from hookwright_operator.services.delivery_log import HIDDEN, SentRequest, is_cursor
from hookwright_operator.store.records import Attempt, DeliveryRecord, State
from hookwright_runtime.bounds import REQUESTS_WITHOUT_GRANT, SIGNINGS
from hookwright_runtime.held_answers import HeldAnswer
from hookwright_runtime.places import Places
from hookwright_runtime.problems import FieldFault, ProblemError, not_found

OMITTED: Final = "the Project keeps payloads out of the log: spec.deliveryLog.payloads is Omit"
"""The reason for an omitted body."""

_ID: Final = re.compile(r"[0-9A-Za-z_.=-]{1,128}")
"""Form of ids; the store is not asked for other texts."""


class DeliveryRoutes:
    """Routes of the delivery log."""

    def __init__(self, services: IntakeServices, auth: ReviewAuth, places: Places, reads: Places) -> None:
        self._services, self._auth = services, auth
        self._places, self._reads = places, reads
        # Apart from the reads: a page keeps its place until a slow client has read it.
        self._signings = Places(SIGNINGS)
        self._places_without_grant = Places(REQUESTS_WITHOUT_GRANT)

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route(f"{ENDPOINT}/deliveries", self.page),
            Route(f"{ENDPOINT}/deliveries/{{delivery}}", self.one),
            Route(f"{NAMESPACE}/deliveries/{{delivery}}", self.find),
            Route(f"{NAMESPACE}/deliveries/{{delivery}}/retry", self.retry, methods=["POST"]),
        ]

    async def page(self, request: Request) -> HeldAnswer:
        """Return an endpoint's deliveries, the newest first: ``{data, next}``; a page may be short or empty.

        The turn of the namespace ends when the answer is sent.
        """
        endpoint, _ = await permitted_endpoint(self._services, self._auth, request, "get", "deliveries")
        state, limit, cursor = page_of(request.query_params.get)
        with await self._reads.acquire(endpoint.namespace) as place:
            records, following = await self._services.delivery_log.page(
                endpoint.uid, state=state, limit=limit, cursor=cursor
            )
            omits = self._services.registry.omits_payloads(endpoint.namespace, endpoint.project)
            shown = [document(record, endpoint.name, omits_payloads=omits) for record in records]
            return HeldAnswer(to_json({"data": shown, "next": following}), place.pop_all())

    async def one(self, request: Request) -> JSONResponse:
        """Return one delivery of an endpoint."""
        endpoint, _ = await permitted_endpoint(self._services, self._auth, request, "get", "deliveries")
        with await self._places.acquire(endpoint.namespace):
            record = await self._find(request)
            if record is None or record.endpoint_uid != endpoint.uid:
                raise _no_delivery(request)
        return JSONResponse(await self._detailed(record, endpoint))

    async def find(self, request: Request) -> JSONResponse:
        """Return one delivery of the namespace (``?project=``: only of that project)."""
        async with self._permitted_delivery(request, "get", "deliveries") as (record, endpoint, _):
            pass
        return JSONResponse(await self._detailed(record, endpoint))

    async def retry(self, request: Request) -> JSONResponse:
        """Send an ended delivery again, or try a pending one now: 202 ``{id, status}`` (``?project=``: only of it)."""
        async with self._permitted_delivery(request, "create", "retry") as (record, endpoint, caller):
            if record.is_test:
                raise ProblemError(409, f"delivery {record.id} is a test; only deliveries of events can be sent again")
            if endpoint.expired or (record.state is State.PENDING and not endpoint.sendable):
                raise ProblemError(409, f"delivery {record.id} cannot be tried now: {hindrance(endpoint)}")
            if not await self._services.delivery_log.retry(record):
                raise ProblemError(409, f"delivery {record.id} is discarded; its webhook was deleted or had expired")
            audit(self._services, request, "delivery.retry", caller, endpoint, target=record.id)
            return JSONResponse({"id": record.id, "status": State.PENDING}, status_code=202)

    async def _detailed(self, record: DeliveryRecord, endpoint: Endpoint) -> dict[str, object]:
        """Return a delivery with its request as it was sent, and the headers of each attempt.

        A wait for the namespace's turn must not hold a place, because places are shared with other namespaces.
        """
        log = self._services.delivery_log
        omits = self._services.registry.omits_payloads(endpoint.namespace, endpoint.project)
        fields = document(record, endpoint.name, omits_payloads=omits)
        with await self._signings.acquire(endpoint.namespace):
            event = await log.event(record.event_id)
            if event is None:
                return fields
            # Up to 100 attempts are signed again, which takes 150 ms with a large body and several secrets.
            requests = await asyncio.to_thread(log.sent, record, event, endpoint)
        sent = zip(record.attempts, requests, strict=True)
        way = {"method": None, "url": None} if endpoint.pulled else {"method": "POST", "url": endpoint.url}
        request = {**way, **body_document(event.body, omits_payloads=omits)}
        attempts = [_detailed_attempt(*one, omits_payloads=omits) for one in sent]
        return {**fields, "request": request, "attempts": attempts}

    @asynccontextmanager
    async def _permitted_delivery(
        self, request: Request, verb: str, subresource: str
    ) -> AsyncIterator[tuple[DeliveryRecord, Endpoint, Producer]]:
        """Hold a place and yield the delivery of the path, its endpoint and the caller.

        The delivery is one of the project in ``?project=``, if the request has this parameter.

        Raises:
            ProblemError: 401 or 403; 404, there is no such delivery; 503, no place is free.
            KubeError: the API server cannot review the token or the permission.
        """
        namespace = request.path_params["namespace"]
        authorization = request.headers.get("authorization", "")
        caller = await self._auth.authenticate(authorization, client_of(request.scope))
        access = Access(verb, "webhookendpoints", subresource, namespace, "")
        # The caller is not authorized yet. A caller without a recent grant must not use the places of a namespace.
        admitted = self._auth.admits(caller, access)
        places, holder = (self._places, namespace) if admitted else (self._places_without_grant, caller.holder)
        with await places.acquire(holder):
            record = await self._find(request)
            endpoint = self._endpoint_in(namespace, record, request.query_params.get("project"))
            # A delivery that does not exist is refused like one of an endpoint for which the caller has no permission.
            await self._auth.authorise(caller, access._replace(name=endpoint.name if endpoint else ""))
            if record is None or endpoint is None:
                raise _no_delivery(request)
            yield record, endpoint, caller

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
    faults: list[FieldFault] = []
    page = page_faults(query, faults)
    if faults:
        raise ProblemError(422, "the query is wrong", errors=tuple(faults))
    return page


def page_faults(query: Callable[[str], str | None], faults: list[FieldFault]) -> tuple[State | None, int, str | None]:
    """Return status, limit and cursor of the query, and add each fault; the values are usable only without a fault."""
    status, limit, cursor = query("status"), query("limit") or str(DEFAULT_LIMIT), query("cursor")
    if status and status not in set(State):
        faults.append(FieldFault("status", f"is unknown; send one of {', '.join(State)}"))
    if not re.fullmatch("[0-9]{1,4}", limit) or not 1 <= int(limit) <= MAX_LIMIT:
        faults.append(FieldFault("limit", f"is wrong; send a number from 1 to {MAX_LIMIT}"))
        limit = str(DEFAULT_LIMIT)
    if cursor and not is_cursor(cursor):
        faults.append(FieldFault("cursor", "must be the `next` of a page; omit it to begin with the newest delivery"))
    return State(status) if status in set(State) else None, int(limit), cursor or None


def document(record: DeliveryRecord, webhook: str, *, omits_payloads: bool) -> dict[str, object]:
    """Return a delivery to the endpoint of a name in the form of the log."""
    fields: dict[str, object] = {
        "id": record.id,
        "event_id": record.event_id,
        "webhook": webhook,
        "type": record.event_type,
        "status": record.state,
        "reason": record.reason,
        "accepted_at": timestamp(record.accepted_ms),
        "attempts": [_attempt(attempt, omits_payloads=omits_payloads) for attempt in record.attempts],
    }
    if record.is_test:
        fields["test"] = True
    return {**fields, "next_attempt_at": timestamp(record.due_ms)} if record.state is State.PENDING else fields


def body_document(body: bytes, *, omits_payloads: bool) -> dict[str, object]:
    """Return the body of an event as text, or the reason why it is omitted."""
    return {"body": None, "body_omitted": OMITTED} if omits_payloads else {"body": body.decode("utf-8", "replace")}


def _attempt(attempt: Attempt, *, omits_payloads: bool) -> dict[str, object]:
    response = {"response": "", "response_omitted": OMITTED} if omits_payloads else {"response": attempt.response}
    return {
        "number": attempt.number,
        "started_at": timestamp(attempt.started_ms),
        "duration_ms": attempt.duration_ms,
        "statusCode": attempt.status_code,
        "error": attempt.error,
        **response,
    }


def _detailed_attempt(attempt: Attempt, sent: SentRequest | None, *, omits_payloads: bool) -> dict[str, object]:
    return {
        **_attempt(attempt, omits_payloads=omits_payloads),
        "request_headers": None if sent is None else dict(sent.headers),
        "signature_known": sent is not None and sent.signature_known,
        "endpoint_changed": None if sent is None else sent.endpoint_changed,
        "response_headers": None if attempt.response_headers is None else _headers(attempt.response_headers),
    }


def _headers(lines: str) -> dict[str, str]:
    """Return the headers of a response by name; equal names are joined, and cookies are hidden."""
    headers: dict[str, str] = {}
    for name, _, value in (line.partition(": ") for line in lines.split("\n") if line):
        if name.lower() == "set-cookie":
            headers[name] = HIDDEN
        else:
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _no_delivery(request: Request) -> ProblemError:
    return not_found(f'delivery "{request.path_params["delivery"]}" in namespace "{request.path_params["namespace"]}"')
