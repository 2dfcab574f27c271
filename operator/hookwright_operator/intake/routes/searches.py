"""Searches of the delivery log of a namespace, and one event with its deliveries."""

import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from pydantic_core import from_json, to_json
from starlette.requests import Request
from starlette.routing import Route

from hookwright_crds.events import UnknownEventTypeError, event_type
from hookwright_operator.intake.asgi import client_of
from hookwright_operator.intake.auth import Access, ReviewAuth
from hookwright_operator.intake.parsing import MAX_NAME_CHARACTERS
from hookwright_operator.intake.routes.deliveries import body_document, document, page_faults
from hookwright_operator.intake.routes.endpoints import NAMESPACE
from hookwright_operator.intake.timestamps import EXPECTED_TIME, time_of, timestamp
from hookwright_operator.registry import Endpoint
from hookwright_operator.services import IntakeServices
from hookwright_operator.store.records import DeliveryRecord, EventRecord, Search
from hookwright_runtime.held_answers import HeldAnswer
from hookwright_runtime.places import Places
from hookwright_runtime.problems import MAX_FAULTS, FieldFault, ProblemError, not_found

SHOWN: Final = 100
"""Deliveries that the answer about an event lists."""
_PARAMETERS: Final = (
    "message_id", "event_id", "type", "status", "status_code", "webhook", "since", "until",
    "limit", "cursor", "project",
)  # fmt: skip
_EVENT: Final = re.compile(r"msg_[0-9A-Za-z]{1,64}")
_STATUS_CODE: Final = re.compile(r"0|[1-5][0-9]{2}")


class SearchRoutes:
    """Routes of a namespace's deliveries and events; a read keeps the namespace's turn until its answer is sent."""

    def __init__(self, services: IntakeServices, auth: ReviewAuth, reads: Places) -> None:
        self._services, self._auth, self._reads = services, auth, reads

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [Route(f"{NAMESPACE}/deliveries", self.search), Route(f"{NAMESPACE}/events/{{event}}", self.event)]

    async def search(self, request: Request) -> HeldAnswer:
        """Return the deliveries that meet all conditions of the query, the newest first: ``{data, next}``."""
        namespace, endpoints = await self._permitted(request)
        wanted, limit, cursor = search_of(request.query_params.get, list(request.query_params), namespace, endpoints)
        with await self._reads.acquire(namespace) as place:
            records, following = await self._services.delivery_log.search(wanted, limit=limit, cursor=cursor)
            answer = to_json({"data": self._shown(records, endpoints), "next": following})
            return HeldAnswer(answer, place.pop_all())

    async def event(self, request: Request) -> HeldAnswer:
        """Return one event with its newest deliveries."""
        namespace, endpoints = await self._permitted(request)
        wanted, project = request.path_params["event"], request.query_params.get("project")
        uids = [endpoint.uid for endpoint in endpoints]
        log = self._services.delivery_log
        with await self._reads.acquire(namespace) as place:
            found = await log.event(wanted) if _EVENT.fullmatch(wanted) else None
            if found is None or not self._is_of(found, namespace, project):
                raise not_found(f'event "{wanted}" in namespace "{namespace}"')
            records, following = await log.deliveries_of(found, uids, limit=SHOWN)
            omits = self._services.registry.omits_payloads(namespace, found.project)
            shown = {"deliveries": self._shown(records, endpoints), "next": following}
            return HeldAnswer(to_json({**_event(found, omits_payloads=omits), **shown}), place.pop_all())

    def _is_of(self, event: EventRecord, namespace: str, project: str | None) -> bool:
        """Whether an event is of a namespace, of the project if one is given, and not of an earlier one of its name."""
        created_ms = self._services.registry.project_created_ms(namespace, event.project)
        return event.namespace == namespace and project in (None, event.project) and event.accepted_ms >= created_ms

    def _shown(self, records: Sequence[DeliveryRecord], endpoints: Sequence[Endpoint]) -> list[dict[str, object]]:
        """Return deliveries to some endpoints in the form of the log."""
        by_uid = {endpoint.uid: endpoint for endpoint in endpoints}
        to = [(record, by_uid[record.endpoint_uid]) for record in records]
        omits_payloads = self._services.registry.omits_payloads
        return [
            document(record, endpoint.name, omits_payloads=omits_payloads(endpoint.namespace, endpoint.project))
            for record, endpoint in to
        ]

    async def _permitted(self, request: Request) -> tuple[str, Sequence[Endpoint]]:
        """Return the namespace of the path and its endpoints, or only those of the project in ``?project=``.

        Raises:
            ProblemError: 401, 403 or 503.
            KubeError: the API server cannot review the token or the permission.
        """
        namespace = request.path_params["namespace"]
        access = Access("get", "webhookendpoints", "deliveries", namespace, "")
        await self._auth.permit(request.headers, access, client_of(request.scope))
        return namespace, self._services.registry.endpoints_of(namespace, request.query_params.get("project"))


def search_of(
    query: Callable[[str], str | None], given: Sequence[str], namespace: str, endpoints: Sequence[Endpoint]
) -> tuple[Search, int, str | None]:
    """Return the search of a query, its limit and its cursor.

    Args:
        query: returns the value of a parameter.
        given: the names of all parameters.
        namespace: of the endpoints.
        endpoints: those that the caller may see.

    Raises:
        ProblemError: 422, with each fault.
    """
    unknown = islice((name for name in given if name not in _PARAMETERS), MAX_FAULTS)
    faults = [FieldFault(name, f"is unknown; send {', '.join(_PARAMETERS)}") for name in unknown]
    state, limit, cursor = page_faults(query, faults)
    uids = tuple(endpoint.uid for endpoint in endpoints)
    if webhook := query("webhook"):
        uids = tuple(endpoint.uid for endpoint in endpoints if endpoint.name == webhook)
        if not uids:
            faults.append(FieldFault("webhook", "is unknown; send the id of a webhook of this project"))
    code = query("status_code")
    if code and not _STATUS_CODE.fullmatch(code):
        faults.append(FieldFault("status_code", "is wrong; send an HTTP status, or 0 for attempts without a response"))
        code = None
    wanted = Search(
        endpoint_uids=uids,
        namespace=namespace,
        message_id=_name(query, "message_id", faults),
        event_id=_name(query, "event_id", faults),
        event_type=_type(query, faults),
        state=state,
        status_code=int(code) if code else None,
        since_ms=_moment(query, "since", faults),
        until_ms=_moment(query, "until", faults),
    )
    if None not in (wanted.since_ms, wanted.until_ms) and (wanted.until_ms or 0) < (wanted.since_ms or 0):
        faults.append(FieldFault("until", "is before since"))
    if faults:
        raise ProblemError(422, "the query is wrong", errors=tuple(faults[:MAX_FAULTS]))
    return wanted, limit, cursor


def _name(query: Callable[[str], str | None], field: str, faults: list[FieldFault]) -> str | None:
    text = query(field) or None
    if text is not None and (len(text) > MAX_NAME_CHARACTERS or not text.isprintable()):
        faults.append(FieldFault(field, f"is wrong; send 1 to {MAX_NAME_CHARACTERS} printable characters"))
    return text


def _type(query: Callable[[str], str | None], faults: list[FieldFault]) -> str | None:
    try:
        return event_type(text) if (text := query("type")) else None
    except UnknownEventTypeError as error:
        faults.append(FieldFault("type", str(error)))
        return None


def _moment(query: Callable[[str], str | None], field: str, faults: list[FieldFault]) -> int | None:
    text = query(field)
    moment = time_of(text) if text else None
    if text and moment is None:
        faults.append(FieldFault(field, f"is wrong; {EXPECTED_TIME}"))
    return moment


def _event(found: EventRecord, *, omits_payloads: bool) -> dict[str, object]:
    fields: dict[str, object] = {
        "id": found.id,
        "project": found.project,
        "type": found.type,
        "accepted_at": timestamp(found.accepted_ms),
        **body_document(found.body, omits_payloads=omits_payloads),
    }
    return fields if found.attributes is None else {**fields, "cloudevent": from_json(found.attributes)}
