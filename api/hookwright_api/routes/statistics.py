"""Statistics of a webhook, and of all webhooks of a project together."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from hookwright_api.auth.permissions import READ
from hookwright_api.http.guarded_route import GuardedRoute, needs
from hookwright_api.http.responses import raw_answer
from hookwright_api.routes.operator_answers import forward
from hookwright_api.routes.scoping import ProjectQuery, endpoint_named, optional_project, own_project
from hookwright_api.schemas.statistics_bodies import StatisticsAnswer, WebhookStatisticsAnswer

router = APIRouter(prefix="/v1", tags=["statistics"], route_class=GuardedRoute)

Window = Annotated[
    Literal["1h", "24h", "7d"],
    Query(description="60 buckets of a minute, 96 of 15 minutes, or 84 of two hours. The last bucket is the present."),
]


@router.get("/webhooks/{id}/statistics", response_model=WebhookStatisticsAnswer, operation_id="getWebhookStatistics")
@needs(READ)
async def get_webhook_statistics(
    request: Request,
    id: str,  # noqa: A002
    *,
    window: Window = "24h",
    project: ProjectQuery = None,
) -> Response:
    """Show how many deliveries of an endpoint succeeded and failed, and how long attempts took, by time."""
    endpoint_named(request, id, optional_project(request, project))
    path = "webhookendpoints", id, "statistics"
    return raw_answer(await forward(request, "the webhook", *path, params={"window": window}))


@router.get("/projects/{project}/statistics", response_model=StatisticsAnswer, operation_id="getProjectStatistics")
@needs(READ)
async def get_project_statistics(request: Request, project: str, *, window: Window = "24h") -> Response:
    """Show the same for all endpoints of a project, also for deleted ones; a key shows only its own project."""
    name = own_project(request, project)
    return raw_answer(await forward(request, "the project", "projects", name, "statistics", params={"window": window}))
