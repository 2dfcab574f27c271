"""The delivery log of the operator, one delivery of it, and the retry of a delivery by hand."""

import re
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request, Response

from hookwright_api.http.guarded_route import KeyOrSessionRoute, caller_of
from hookwright_api.http.responses import from_operator, raw_answer
from hookwright_api.operator_client import OperatorError
from hookwright_api.routes.scoping import ProjectQuery, endpoint_named, optional_project
from hookwright_api.schemas import DeliveriesAnswer, DeliveryAnswer, RetryAnswer
from hookwright_api.services import services_of
from hookwright_runtime.problems import not_found

router = APIRouter(prefix="/v1", tags=["deliveries"], route_class=KeyOrSessionRoute)

MAX_LIMIT: Final = 250
DEFAULT_LIMIT: Final = 50
_DELIVERY_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

State = Literal["pending", "delivered", "failed", "discarded"]


@router.get("/webhooks/{id}/deliveries", response_model=DeliveriesAnswer, operation_id="listDeliveries")
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
    try:
        page = await services_of(request).intake.deliveries(
            found.identity.namespace,
            found.identity.name,
            {name: value for name, value in query.items() if value},
        )
    except OperatorError as error:
        raise from_operator(error, "the webhook") from None
    return raw_answer(page)


@router.get("/deliveries/{id}", response_model=DeliveryAnswer, operation_id="getDelivery")
async def get_delivery(request: Request, id: str, project: ProjectQuery = None) -> Response:  # noqa: A002
    """Show one delivery with its attempts."""
    name = optional_project(request, project)
    if not _DELIVERY_ID.fullmatch(id):
        raise not_found("the delivery")
    try:
        found = await services_of(request).intake.delivery(caller_of(request).organization, name, id)
    except OperatorError as error:
        raise from_operator(error, "the delivery") from None
    return raw_answer(found)


@router.post("/deliveries/{id}/retry", status_code=202, response_model=RetryAnswer, operation_id="retryDelivery")
async def retry_delivery(request: Request, id: str, project: ProjectQuery = None) -> Response:  # noqa: A002
    """Send a failed or delivered delivery again."""
    name = optional_project(request, project)
    if not _DELIVERY_ID.fullmatch(id):
        raise not_found("the delivery")
    try:
        answered = await services_of(request).intake.retry(caller_of(request).organization, name, id)
    except OperatorError as error:
        raise from_operator(error, "the delivery") from None
    return raw_answer(answered, 202)
