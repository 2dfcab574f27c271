"""The delivery log of the operator, one delivery of it, and the retry of a delivery by hand."""

import re
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from hookwright_api.auth.permissions import MANAGE, READ
from hookwright_api.http.guarded_route import GuardedRoute, audit, caller_of, needs
from hookwright_api.http.responses import raw_answer
from hookwright_api.routes.operator_answers import operator_answer
from hookwright_api.routes.scoping import ProjectQuery, endpoint_named, optional_project
from hookwright_api.schemas.delivery_bodies import (
    DeliveriesAnswer,
    DeliveryConditions,
    DetailedDelivery,
    RetryAnswer,
    State,
)
from hookwright_api.services import services_of
from hookwright_crds.request_limits import DEFAULT_LIMIT, MAX_LIMIT
from hookwright_runtime.problems import not_found

router = APIRouter(prefix="/v1", tags=["deliveries"], route_class=GuardedRoute)

_DELIVERY_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@router.get("/webhooks/{id}/deliveries", response_model=DeliveriesAnswer, operation_id="listDeliveries")
@needs(READ)
async def list_deliveries(
    request: Request,
    id: str,  # noqa: A002
    *,
    status: Annotated[State | None, Query(description="Only deliveries in this state.")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Deliveries on one page.")] = DEFAULT_LIMIT,
    cursor: Annotated[str | None, Query(max_length=512, description="The `next` of the previous page.")] = None,
    project: ProjectQuery = None,
) -> Response:
    """List an endpoint's deliveries, newest first, each with its attempts."""
    found = endpoint_named(request, id, optional_project(request, project))
    query = {"limit": str(limit), "status": status or "", "cursor": cursor or ""}
    given = {name: value for name, value in query.items() if value}
    page = services_of(request).operator.deliveries(found.identity.namespace, found.identity.name, given)
    return raw_answer(await operator_answer(page, "the webhook"))


@router.get("/deliveries", response_model=DeliveriesAnswer, operation_id="searchDeliveries")
@needs(READ)
async def search_deliveries(request: Request, wanted: Annotated[DeliveryConditions, Query()]) -> Response:
    """Search the deliveries of all webhooks of a project, newest first.

    All conditions apply together. A session searches its whole organization, or the project in `?project=`.
    """
    name = optional_project(request, wanted.project)
    given = {**wanted.model_dump(mode="json", exclude_none=True, exclude={"project"}), "project": name}
    query = {field: str(value) for field, value in given.items() if value is not None}
    page = services_of(request).operator.search(caller_of(request).organization, query)
    return raw_answer(await operator_answer(page, "the deliveries"))


@router.get("/deliveries/{id}", response_model=DetailedDelivery, operation_id="getDelivery")
@needs(READ)
async def get_delivery(request: Request, id: str, project: ProjectQuery = None) -> Response:  # noqa: A002
    """Show one delivery with its request as it was sent, and each attempt with the headers of request and answer."""
    name = optional_project(request, project)
    _check_id(id)
    found = services_of(request).operator.delivery(caller_of(request).organization, name, id)
    return raw_answer(await operator_answer(found, "the delivery"))


@router.post("/deliveries/{id}/retry", status_code=202, response_model=RetryAnswer, operation_id="retryDelivery")
@needs(MANAGE)
async def retry_delivery(request: Request, id: str, project: ProjectQuery = None) -> Response:  # noqa: A002
    """Send a failed or delivered delivery again, or try a pending one now.

    A delivery that is sent again begins its retry schedule anew. A pending one keeps the number of its attempts; if an
    attempt is under way, no second one is made.
    """
    name = optional_project(request, project)
    _check_id(id)
    retried = services_of(request).operator.retry(caller_of(request).organization, name, id)
    retried_delivery = await operator_answer(retried, "the delivery")
    audit(request, "delivery.retry", target=id, project=name or "")
    return raw_answer(retried_delivery, 202)


def _check_id(delivery_id: str) -> None:
    if not _DELIVERY_ID.fullmatch(delivery_id):
        raise not_found("the delivery")
