"""The delivery log of an endpoint and of a project, and one delivery with its attempts."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from hookwright_api.console.delivery_filters import PERIODS, DeliveryFilters
from hookwright_api.console.form_fields import faults_of
from hookwright_api.console.lookup import endpoint_of, project_of
from hookwright_api.console.navigation import console_path, endpoint_path
from hookwright_api.console.operations import attempt, call
from hookwright_api.console.page_route import ConsoleRoutes
from hookwright_api.console.templating import render, see
from hookwright_api.console.words import DELIVERY_STATES, has_failed
from hookwright_api.http.guarded_route import caller_of
from hookwright_api.routes.operator_routes import get_delivery, list_deliveries, retry_delivery, search_deliveries
from hookwright_api.services import services_of
from hookwright_crds.events import EVENT_TYPES
from hookwright_runtime.problems import ProblemError, not_found

console = ConsoleRoutes()

_PROJECT: Final = "/projects/{project}/deliveries"
_ENDPOINT: Final = "/projects/{project}/endpoints/{endpoint}/deliveries"
_PAGE: Final = 50
_SOON: Final = timedelta(minutes=1)
"""Until the next attempt, if the page of a pending delivery loads itself again."""

_OPTIONAL: Final = {"test": False, "next_attempt_at": None, "request": None, "reason": ""}
_OPTIONAL_OF_ATTEMPT: Final = {
    "request_headers": None,
    "response_headers": None,
    "signature_known": False,
    "endpoint_changed": None,
    "response_omitted": None,
}
_OPTIONAL_OF_REQUEST: Final = {"body_omitted": None}
"""Values of fields that ``/v1`` omits."""

Page = dict[str, Any]
Read = Callable[[DeliveryFilters, str], Awaitable[Page]]


@console.page(_ENDPOINT, uses=(list_deliveries, search_deliveries))
async def show_endpoint_log(request: Request) -> Response:
    """Show the delivery log of an endpoint, 50 on a page; the first page is live."""
    project, endpoint = endpoint_of(request)
    name = project.identity.name
    log_path = endpoint_path(name, endpoint.identity.name, "deliveries")

    async def read(filters: DeliveryFilters, cursor: str) -> Page:
        return await _endpoint_page(request, name, endpoint.identity.name, filters, cursor)

    return await _show_log(request, "endpoint_log.html", read, log_path=log_path, project=project, endpoint=endpoint)


@console.page(_PROJECT, uses=(search_deliveries,))
async def show_project_log(request: Request) -> Response:
    """Search the deliveries of all endpoints of a project."""
    project = project_of(request)
    name = project.identity.name

    async def read(filters: DeliveryFilters, cursor: str) -> Page:
        return await _search(request, name, None, filters, cursor)

    return await _show_log(
        request, "project_log.html", read, log_path=console_path("projects", name, "deliveries"), project=project
    )


async def _show_log(request: Request, template: str, read: Read, *, log_path: str, **context: Any) -> Response:
    filters = DeliveryFilters.of(request.query_params)
    cursor = request.query_params.get("cursor", "")
    page, problem, faults = None, None, {}
    try:
        page, problem = await attempt(read(filters, cursor))
        if problem is not None and "hx-request" in request.headers:
            # The rows of a page that reads itself again stay, and its notice has the words.
            raise problem
    except ProblemError as refused:
        if refused.status != 422:
            raise
        problem, faults = refused, faults_of(refused)
    return render(
        request,
        template,
        problem.status if faults and problem else 200,
        log_path=log_path,
        filters=filters,
        **_rows(page),
        cursor=cursor,
        problem=problem,
        faults=faults,
        states=DELIVERY_STATES,
        event_types=EVENT_TYPES,
        periods=PERIODS,
        **_targets(request, page["data"] if page else (), with_urls="endpoint" not in context),
        **context,
    )


def _rows(page: Page | None) -> Page:
    """Return the deliveries of a page with all their fields, and the cursor of the next page."""
    deliveries = [_OPTIONAL | one for one in page["data"]] if page else []
    return {"deliveries": deliveries, "following": page["next"] if page else None}


def _targets(request: Request, deliveries: Iterable[Mapping[str, Any]], *, with_urls: bool) -> Page:
    """Return the endpoints of deliveries: their URLs by name if wanted, and the names of those that consumers pull."""
    endpoints, organization = services_of(request).view.endpoints, caller_of(request).organization
    found = {name: endpoints.get(organization, name) for name in {one["webhook"] for one in deliveries}}
    known = {name: record for name, record in found.items() if record is not None}
    return {
        "urls": {name: record.target for name, record in known.items()} if with_urls else None,
        "pulled_names": {name for name, record in known.items() if record.endpoint.spec.pull},
    }


async def _endpoint_page(request: Request, project: str, endpoint: str, filters: DeliveryFilters, cursor: str) -> Page:
    if filters.needs_search:
        return await _search(request, project, endpoint, filters, cursor)
    status: Any = filters.status if filters.status in DELIVERY_STATES else None
    page: Page = await call(
        request, list_deliveries, endpoint, status=status, limit=_PAGE, cursor=cursor or None, project=project
    )
    return page


async def _search(request: Request, project: str, endpoint: str | None, filters: DeliveryFilters, cursor: str) -> Page:
    conditions = filters.conditions(services_of(request).now())
    options = {"project": project, "webhook": endpoint, "limit": _PAGE, "cursor": cursor}
    page: Page = await call(request, search_deliveries, **conditions, **options)
    return page


@console.page(_ENDPOINT + "/latest-failure", uses=(list_deliveries,))
async def show_latest_failure(request: Request) -> Response:
    """Lead to the delivery with the latest failed attempt, among the newest pending and failed ones of the endpoint."""
    project, endpoint = endpoint_of(request)
    names = project.identity.name, endpoint.identity.name
    pages = [
        await _endpoint_page(request, *names, DeliveryFilters(status=status), "") for status in ("pending", "failed")
    ]
    latest = latest_failure([delivery for page in pages for delivery in page["data"]])
    return see(request, endpoint_path(*names, "deliveries", *latest))


def latest_failure(deliveries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the id of the delivery whose last attempt is the latest failed one; empty if no last attempt failed."""
    last = [(delivery["attempts"][-1], delivery["id"]) for delivery in deliveries if delivery["attempts"]]
    failures = [(attempt["started_at"], id_) for attempt, id_ in last if has_failed(attempt)]
    return [max(failures)[1]] if failures else []


@console.page(_ENDPOINT + "/{delivery}", uses=(get_delivery,))
async def show_delivery(request: Request) -> Response:
    """Show the request of a delivery, and every attempt with the receiver's answer."""
    project, endpoint = endpoint_of(request)
    delivery = await _delivery(request)
    following = delivery["status"] == "pending" and _is_soon(delivery["next_attempt_at"], services_of(request).now())
    return render(
        request, "delivery.html", project=project, endpoint=endpoint, delivery=delivery, is_followed=following
    )


def _is_soon(moment: str | None, now: datetime) -> bool:
    """Return whether a person may wait for an attempt; without a time it is under way."""
    return moment is None or datetime.fromisoformat(moment) - now < _SOON


async def _delivery(request: Request) -> dict[str, Any]:
    project, endpoint = endpoint_of(request)
    found: dict[str, Any] = await call(
        request, get_delivery, request.path_params["delivery"], project=project.identity.name
    )
    if found["webhook"] != endpoint.identity.name:
        raise not_found("the delivery")
    attempts = [_OPTIONAL_OF_ATTEMPT | one for one in found["attempts"]]
    sent = _OPTIONAL_OF_REQUEST | found["request"] if found.get("request") else None
    return _OPTIONAL | found | {"attempts": attempts, "request": sent}


@console.action(_ENDPOINT + "/{delivery}/retry", uses=(retry_delivery, get_delivery))
async def send_again(request: Request) -> Response:
    """Send a delivery again, or try a pending one now."""
    project, endpoint = endpoint_of(request)
    delivery = await _delivery(request)
    await call(request, retry_delivery, delivery["id"], project=project.identity.name)
    here = endpoint_path(project.identity.name, endpoint.identity.name, "deliveries", delivery["id"])
    return see(request, here, notice="delivery-tried" if delivery["status"] == "pending" else "delivery-again")
