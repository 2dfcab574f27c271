"""Messages of endpoints with pull: a consumer takes them, and acknowledges or refuses them."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic_core import from_json, to_json

from hookwright_api.auth.permissions import PULL
from hookwright_api.http.guarded_route import GuardedRoute, audit, caller_of, needs
from hookwright_api.http.responses import raw_answer
from hookwright_api.routes.operator_answers import forward, operator_answer
from hookwright_api.routes.scoping import ProjectQuery, endpoint_named, optional_project
from hookwright_api.schemas.message_bodies import (
    AckRequest,
    MessageLease,
    MessageResultsAnswer,
    MessagesAnswer,
    NackRequest,
    Wait,
)
from hookwright_api.services import services_of
from hookwright_crds.request_limits import DEFAULT_MESSAGES, MAX_MESSAGES
from hookwright_runtime.held_answers import HeldAnswer, until_gone

router = APIRouter(prefix="/v1/webhooks/{id}/messages", tags=["messages"], route_class=GuardedRoute)

_NONE = b'{"data":[]}'


@router.get("", response_model=MessagesAnswer, operation_id="takeMessages")
@needs(PULL)
async def take_messages(
    request: Request,
    id: str,  # noqa: A002
    *,
    limit: Annotated[int, Query(ge=1, le=MAX_MESSAGES, description="Messages at most.")] = DEFAULT_MESSAGES,
    wait: Annotated[
        Wait, Query(description="How long to wait for the first message if none is due, from 0s to 30s.")
    ] = "0s",
    lease: Annotated[
        MessageLease | None,
        Query(description="How long no other consumer gets the messages, from 1s to 1h; by default the webhook's."),
    ] = None,
    project: ProjectQuery = None,
) -> Response:
    """Take messages of an endpoint with pull. Acknowledge each one before its lease ends.

    A request changes state: it leases the messages, and a lease that ends is a failed attempt. An answer has at most
    1 MiB of bodies and 1 MiB of headers, or one larger message. So it may have fewer messages than `limit` although
    more are due.
    """
    services, organization = services_of(request), caller_of(request).organization
    found = endpoint_named(request, id, optional_project(request, project))
    query = {"limit": str(limit), "wait": wait} | ({"lease": lease} if lease else {})
    with await services.polls.acquire(organization) as place:
        taken = services.operator.take_messages(found.identity.namespace, found.identity.name, query)
        messages = await until_gone(operator_answer(taken, "the webhook"), request.receive, services.ending)
        return HeldAnswer(_NONE if messages is None else messages, place.pop_all())


@router.post("/ack", response_model=MessageResultsAnswer, operation_id="ackMessages")
@needs(PULL)
async def ack_messages(request: Request, id: str, body: AckRequest, project: ProjectQuery = None) -> Response:  # noqa: A002
    """Acknowledge messages: their deliveries are delivered. A repetition of the request has the same result."""
    return await _settled(request, id, "ack", body, project)


@router.post("/nack", response_model=MessageResultsAnswer, operation_id="nackMessages")
@needs(PULL)
async def nack_messages(request: Request, id: str, body: NackRequest, project: ProjectQuery = None) -> Response:  # noqa: A002
    """Refuse messages: the attempt failed, and the next one follows by the retry schedule or after `delay`."""
    return await _settled(request, id, "nack", body, project)


async def _settled(
    request: Request, name: str, verb: str, body: AckRequest | NackRequest, project: str | None
) -> Response:
    found = endpoint_named(request, name, optional_project(request, project))
    written = to_json(body.model_dump(exclude_none=True))
    path = "webhookendpoints", name, "messages", verb
    results = await forward(request, "the webhook", *path, method="POST", content=written)
    done = [one for one in from_json(results)["data"] if one["result"] == f"{verb}ed"]
    for action, is_repeated in ((f"message.{verb}", False), (f"message.{verb}_repeated", True)):
        ids = dict.fromkeys(one["id"].partition(".")[0] for one in done if one.get("repeated", False) is is_repeated)
        audit(request, action, target=name, project=found.project, deliveries=list(ids))
    return raw_answer(results)
