"""Replays of a webhook: begun, listed, shown, cancelled."""

import re
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response
from pydantic_core import from_json

from hookwright_api.auth.permissions import MANAGE, READ
from hookwright_api.http.guarded_route import GuardedRoute, audit, needs
from hookwright_api.http.openapi import links, sends
from hookwright_api.http.responses import raw_answer
from hookwright_api.routes.operator_answers import forward
from hookwright_api.routes.scoping import ProjectQuery, endpoint_named, optional_project
from hookwright_api.schemas.replay_bodies import BegunReplayAnswer, ReplayAnswer, ReplayRequest, ReplaysAnswer
from hookwright_api.view.table_records import EndpointRecord
from hookwright_runtime.problems import not_found

router = APIRouter(prefix="/v1/webhooks/{id}/replays", tags=["replays"], route_class=GuardedRoute)

_REPLAY_ID: Final = re.compile(r"[A-Za-z0-9_]{1,64}")

WebhookId = Annotated[str, Path(description="The webhook's id.")]
ReplayId = Annotated[str, Path(description="The replay's id.")]


@router.post(
    "",
    status_code=202,
    response_model=BegunReplayAnswer,
    operation_id="beginReplay",
    responses={
        200: {"model": BegunReplayAnswer, "description": "The number of deliveries, after a `dry_run`."},
        202: sends("Location") | links("getReplay", id="$request.path.id", replay="$response.body#/id"),
    },
)
@needs(MANAGE)
async def begin_replay(request: Request, id: WebhookId, body: ReplayRequest, project: ProjectQuery = None) -> Response:  # noqa: A002
    """Send deliveries of a time range again, in the background, the oldest first.

    409 means that another replay of the webhook is running.
    """
    found = _endpoint(request, id, project)
    content = body.model_dump_json(exclude_none=True).encode()
    replied = await forward(request, "the webhook", *_path(id), method="POST", content=content)
    if body.dry_run:
        return raw_answer(replied)
    audit(request, "webhook.replay", target=id, project=found.project)
    return raw_answer(replied, 202, Location=f"/v1/webhooks/{id}/replays/{from_json(replied)['id']}")


@router.get("", response_model=ReplaysAnswer, operation_id="listReplays")
@needs(READ)
async def list_replays(request: Request, id: WebhookId, project: ProjectQuery = None) -> Response:  # noqa: A002
    """List the latest replays of an endpoint, newest first."""
    _endpoint(request, id, project)
    return raw_answer(await forward(request, "the webhook", *_path(id)))


@router.get("/{replay}", response_model=ReplayAnswer, operation_id="getReplay")
@needs(READ)
async def get_replay(request: Request, id: WebhookId, replay: ReplayId, project: ProjectQuery = None) -> Response:  # noqa: A002
    """Show a replay with its progress."""
    _endpoint(request, id, project)
    _check_id(replay)
    return raw_answer(await forward(request, "the replay", *_path(id), replay))


@router.delete("/{replay}", status_code=204, operation_id="cancelReplay")
@needs(MANAGE)
async def cancel_replay(request: Request, id: WebhookId, replay: ReplayId, project: ProjectQuery = None) -> Response:  # noqa: A002
    """Cancel a replay; deliveries that are pending already stay pending. 409 means that the replay is completed."""
    found = _endpoint(request, id, project)
    _check_id(replay)
    await forward(request, "the replay", *_path(id), replay, method="DELETE")
    audit(request, "replay.cancel", target=replay, project=found.project)
    return Response(status_code=204)


def _endpoint(request: Request, webhook: str, project: str | None) -> EndpointRecord:
    return endpoint_named(request, webhook, optional_project(request, project))


def _path(webhook: str) -> tuple[str, ...]:
    return "webhookendpoints", webhook, "replays"


def _check_id(replay: str) -> None:
    if not _REPLAY_ID.fullmatch(replay):
        raise not_found("the replay")
