"""The delivery log of the operator, one delivery of it, and the retry of a delivery by hand."""

import re
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from hookwright_api.auth.permissions import MANAGE, READ
from hookwright_api.http.guarded_route import GuardedRoute, audit, needs
from hookwright_api.http.responses import raw_answer
from hookwright_api.routes.operator_answers import forward
from hookwright_api.routes.scoping import ProjectQuery, endpoint_named, optional_project
from hookwright_api.schemas.delivery_bodies import (
    DeliveriesAnswer,
    DeliveryConditions,
    DetailedDelivery,
    RetryAnswer,
    State,
)
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
    endpoint_named(request, id, optional_project(request, project))
    query = {"limit": str(limit), "status": status, "cursor": cursor or None}
    return raw_answer(await forward(request, "the webhook", "webhookendpoints", id, "deliveries", params=query))


@router.get("/deliveries", response_model=DeliveriesAnswer, operation_id="searchDeliveries")
@needs(READ)
async def search_deliveries(request: Request, wanted: Annotated[DeliveryConditions, Query()]) -> Response:
    """Search the deliveries of all webhooks of a project, newest first.

    All conditions apply together. A session searches its whole organization, or the project in `?project=`.
    """
    conditions = wanted.model_dump(mode="json", exclude_none=True, exclude={"project"})
    query = {name: str(value) for name, value in conditions.items()}
    project = optional_project(request, wanted.project)
    return raw_answer(await forward(request, "the deliveries", "deliveries", params={**query, "project": project}))


@router.get("/deliveries/{id}", response_model=DetailedDelivery, operation_id="getDelivery")
@needs(READ)
async def get_delivery(request: Request, id: str, project: ProjectQuery = None) -> Response:  # noqa: A002
    """Show one delivery with its request as it was sent, and each attempt with the headers of request and answer."""
    name = optional_project(request, project)
    _check_id(id)
    return raw_answer(await forward(request, "the delivery", "deliveries", id, params={"project": name}))


@router.post("/deliveries/{id}/retry", status_code=202, response_model=RetryAnswer, operation_id="retryDelivery")
@needs(MANAGE)
async def retry_delivery(request: Request, id: str, project: ProjectQuery = None) -> Response:  # noqa: A002
    """Send a failed or delivered delivery again, or try a pending one now.

    A delivery that is sent again begins its retry schedule anew. A pending one keeps the number of its attempts; if an
    attempt is under way, no second one is made.
    """
    name = optional_project(request, project)
    _check_id(id)
    path = "deliveries", id, "retry"
    retried_delivery = await forward(request, "the delivery", *path, method="POST", params={"project": name})
    audit(request, "delivery.retry", target=id, project=name or "")
    return raw_answer(retried_delivery, 202)


def _check_id(delivery_id: str) -> None:
    if not _DELIVERY_ID.fullmatch(delivery_id):
        raise not_found("the delivery")
