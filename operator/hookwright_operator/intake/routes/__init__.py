"""The routes of the intake, from the table of operations, all below ``/v1alpha1/namespaces/{namespace}``."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hookwright_crds.documents.forms import Answer
from hookwright_crds.operations import NAMESPACE, OPERATION, Right
from hookwright_operator.intake.context import IntakeContext
from hookwright_operator.intake.routes import (
    credentials,
    deliveries,
    endpoints,
    messages,
    replays,
    searches,
    statistics,
)

Handler = Callable[[IntakeContext, Request, Right], Awaitable[Answer | Response]]

_HANDLERS: Final[dict[str, Handler]] = {
    "testWebhook": endpoints.send_test,
    "takeMessages": messages.take,
    "ackMessages": messages.ack,
    "nackMessages": messages.nack,
    "beginReplay": replays.begin,
    "listReplays": replays.show_latest,
    "getReplay": replays.show,
    "cancelReplay": replays.cancel,
    "getWebhookStatistics": statistics.of_endpoint,
    "getProjectStatistics": statistics.of_project,
    "listDeliveries": deliveries.page,
    "searchDeliveries": searches.search,
    "findDeliveries": searches.find,
    "getDelivery": deliveries.show,
    "retryDelivery": deliveries.retry,
    "getEvent": searches.show_event,
}
"""By the name of the operation; `EventRoute` answers sendEvents."""
_ENDPOINT: Final = f"{NAMESPACE}/webhookendpoints/{{name}}"


def routes(intake: IntakeContext) -> list[Route]:
    """Return all routes except that of events."""

    def route(path: str, handler: Handler, right: Right, method: str = "GET", status: int = 200) -> Route:
        return Route(path, partial(_serve, handler, intake, right, status), methods=[method])

    return [
        route(f"{_ENDPOINT}/secret", endpoints.read_secret, ("get", "secret")),
        route(f"{_ENDPOINT}/credentials", credentials.change, ("update", "credentials"), "PUT", 204),
        route(f"{_ENDPOINT}/deliveries/{{id}}", deliveries.show_of, ("get", "deliveries")),
        *(
            route(operation.intake_path, handler, operation.right, operation.method, operation.status)
            for name, handler in _HANDLERS.items()
            for operation in (OPERATION[name],)
        ),
    ]


async def _serve(handler: Handler, intake: IntakeContext, right: Right, status: int, request: Request) -> Response:
    answer = await handler(intake, request, right)
    if isinstance(answer, Response):
        return answer
    return Response(answer.json_bytes(), status, media_type="application/json")
