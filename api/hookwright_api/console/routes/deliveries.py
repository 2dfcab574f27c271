"""The delivery log of an endpoint and of a project, and one delivery with its attempts."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from starlette.responses import Response

from hookwright_api.auth.callers import caller_of
from hookwright_api.console.delivery_filters import PERIOD_TITLES, DeliveryFilters
from hookwright_api.console.navigation import address
from hookwright_api.console.page_route import action, page
from hookwright_api.console.visit import Visit
from hookwright_api.console.words import DELIVERY_STATES, PENDING_TITLE, has_failed
from hookwright_api.http.request_checks import count_request
from hookwright_api.routes.operator_routes import get_delivery, list_deliveries, retry_delivery, search_deliveries
from hookwright_crds.documents.delivery_bodies import DetailedAttempt, DetailedDelivery, SentRequestAnswer
from hookwright_runtime.problems import ProblemError, not_found

_PROJECT: Final = "/projects/{project}/deliveries"
_ENDPOINT: Final = "/projects/{project}/endpoints/{endpoint}/deliveries"
PAGE: Final = 50
"""Deliveries on a page."""
_SOON: Final = timedelta(minutes=1)
"""Until the next attempt, if the page of a pending delivery loads itself again."""
_ABSENT: Final[Mapping[str, Any]] = {
    name: None for model in (DetailedDelivery, DetailedAttempt, SentRequestAnswer) for name in model.model_fields
}
"""The fields of a delivery, an attempt and a request; ``/v1`` omits some of them."""

Document = dict[str, Any]


@page(_ENDPOINT, uses=(list_deliveries, search_deliveries))
async def show_endpoint_log(visit: Visit) -> Response:
    """Show the delivery log of an endpoint, 50 on a page; the first page is live."""
    return await _show_log(visit, "endpoint_log.html", visit.endpoint.identity.name)


@page(_PROJECT, uses=(search_deliveries,))
async def show_project_log(visit: Visit) -> Response:
    """Search the deliveries of all endpoints of a project."""
    return await _show_log(visit, "project_log.html", None)


async def _show_log(visit: Visit, template: str, endpoint: str | None) -> Response:
    filters, cursor = DeliveryFilters.of(visit.query), visit.query.get("cursor", "")
    log_path = f"{visit.here}/deliveries"
    listing: Document = {"data": [], "next": None}
    problem = visit.problem
    try:
        listing = await _read(visit, endpoint, filters, cursor)
    except ProblemError as refusal:
        # The rows of a page that reads itself again stay, and its notice has the words.
        is_part = refusal.status >= 500 or refusal.status == 429
        if refusal.status != 422 and (not is_part or "hx-request" in visit.request.headers):
            raise
        problem = refusal
    return visit.render(
        template,
        422 if problem is not None and problem.errors else 0,
        log_path=log_path,
        again_path=address(f"{log_path}/again", filters, cursor=cursor),
        filters=filters,
        deliveries=rows_of(visit, listing["data"], visit.project.identity.name),
        with_endpoints=endpoint is None,
        following=listing["next"],
        cursor=cursor,
        problem=problem,
        states={name: word.title for name, word in DELIVERY_STATES.items()} | {"pending": PENDING_TITLE},
        event_types=dict.fromkeys([*visit.event_types, *filter(None, [filters["type"]])]),
        periods=PERIOD_TITLES,
    )


def rows_of(visit: Visit, deliveries: Iterable[Document], project: str = "") -> list[Document]:
    """Return deliveries with their endpoints, None for one that the view lacks, and the names of their projects."""
    find = visit.services.view.endpoints.get
    endpoints = [(delivery, find(visit.organization, delivery["webhook"])) for delivery in deliveries]
    return [
        {**_ABSENT, **delivery, "endpoint": record, "project": record.project if record else project}
        for delivery, record in endpoints
    ]


async def _read(visit: Visit, endpoint: str | None, filters: DeliveryFilters, cursor: str = "") -> Document:
    listing: Document
    if endpoint is not None and not filters.needs_search:
        status = filters["status"] if filters["status"] in DELIVERY_STATES else None
        listing = await visit.call_endpoint(list_deliveries, status=status, limit=PAGE, cursor=cursor or None)
        return listing
    scope = {"project": visit.project.identity.name, "webhook": endpoint, "limit": PAGE, "cursor": cursor or None}
    listing = await visit.call(search_deliveries, **filters.conditions(visit.services.now()), **scope)
    return listing


@page(_ENDPOINT + "/latest-failure", uses=(list_deliveries,))
async def show_latest_failure(visit: Visit) -> Response:
    """Lead to the delivery with the latest failed attempt, among the newest pending and failed ones of the endpoint."""
    filters = (DeliveryFilters.of({"status": status}) for status in ("pending", "failed"))
    pages = [await _read(visit, visit.endpoint.identity.name, status) for status in filters]
    latest = latest_failure([delivery for listing in pages for delivery in listing["data"]])
    return visit.see("/".join([visit.here, "deliveries", *latest]))


def latest_failure(deliveries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the id of the delivery whose last attempt is the latest failed one; empty if no last attempt failed."""
    attempts = [(delivery["attempts"][-1], delivery["id"]) for delivery in deliveries if delivery["attempts"]]
    failures = [(attempt["started_at"], id_) for attempt, id_ in attempts if has_failed(attempt)]
    return [max(failures)[1]] if failures else []


@page(_ENDPOINT + "/{delivery}", uses=(get_delivery,))
async def show_delivery(visit: Visit) -> Response:
    """Show the request of a delivery, and every attempt with the receiver's answer."""
    delivery = await delivery_of(visit, visit.request.path_params["delivery"])
    is_followed = delivery["status"] == "pending" and _is_soon(delivery["next_attempt_at"], visit.services.now())
    return visit.render("delivery.html", delivery=delivery, is_followed=is_followed)


def _is_soon(moment: str | None, now: datetime) -> bool:
    """Return whether a person may wait for an attempt; without a time it is under way."""
    return moment is None or datetime.fromisoformat(moment) - now < _SOON


async def delivery_of(visit: Visit, name: str) -> Document:
    """Return a delivery of the endpoint of the path, with every field.

    Raises:
        ProblemError: 404, also for a delivery of another endpoint.
    """
    delivery: Document = await visit.call(get_delivery, name, project=visit.project.identity.name)
    if delivery["webhook"] != visit.endpoint.identity.name:
        raise not_found("the delivery")
    attempts = [{**_ABSENT, **attempt} for attempt in delivery["attempts"]]
    request = delivery.get("request")
    return {**_ABSENT, **delivery, "attempts": attempts, "request": {**_ABSENT, **request} if request else None}


@action(_ENDPOINT + "/{delivery}/retry", uses=(retry_delivery, get_delivery))
async def send_again(visit: Visit) -> Response:
    """Send a delivery again, or try a pending one now."""
    delivery = await delivery_of(visit, visit.request.path_params["delivery"])
    await visit.call(retry_delivery, delivery["id"], project=visit.project.identity.name)
    notice = "delivery-tried" if delivery["status"] == "pending" else "delivery-again"
    return visit.see(f"{visit.here}/deliveries/{delivery['id']}", notice=notice)


@action(_ENDPOINT + "/again", uses=(retry_delivery, list_deliveries, search_deliveries), again=show_endpoint_log)
async def send_log_again(visit: Visit) -> Response:
    """Send the marked deliveries of an endpoint's log again."""
    return await _send_log_again(visit)


@action(_PROJECT + "/again", uses=(retry_delivery, search_deliveries), again=show_project_log)
async def send_project_log_again(visit: Visit) -> Response:
    """Send the marked deliveries of a project's log again."""
    return await _send_log_again(visit)


async def _send_log_again(visit: Visit) -> Response:
    await send_marked_again(visit, visit.project.identity.name)
    filters, cursor = DeliveryFilters.of(visit.query), visit.query.get("cursor", "")
    return visit.see(address(f"{visit.here}/deliveries", filters, cursor=cursor), notice="deliveries-again")


async def send_marked_again(visit: Visit, project: str | None) -> None:
    """Send the deliveries of a form again, each by its own call, which counts as a request of the organization.

    Args:
        visit: its form has the delivery of a button in ``only``, or the marked ones in ``delivery``.
        project: the project of the deliveries; None: that of each.

    Raises:
        ProblemError: the first refusal; the others are sent again, unless the operator does not answer.
    """
    ids = list(dict.fromkeys(visit.form.all("only") or visit.form.all("delivery")))
    if not 0 < len(ids) <= PAGE:
        raise ProblemError(422, f"mark 1 to {PAGE} deliveries")
    refusals: list[ProblemError] = []
    for number, delivery_id in enumerate(ids):
        try:
            if number:
                await count_request(visit.request, caller_of(visit.request))
            await visit.call(retry_delivery, delivery_id, project=project)
        except ProblemError as refusal:
            refusals.append(refusal)
            if refusal.status >= 500 or refusal.status == 429:
                refusals += [refusal] * (len(ids) - number - 1)
                break
    if refusals:
        sent = f"{len(ids) - len(refusals)} of {len(ids)} deliveries are sent again: " if len(ids) > 1 else ""
        raise ProblemError(refusals[0].status, sent + refusals[0].detail, headers=refusals[0].headers)
