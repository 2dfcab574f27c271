"""The routes of the operations that the operator answers, made from the table, and the forwarder."""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, cast

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic_core import from_json

from hookwright_api.auth.callers import (
    ProjectQuery,
    caller_of,
    endpoint_named,
    one_project,
    optional_project,
    project_named,
)
from hookwright_api.http.openapi import links, sends
from hookwright_api.http.request_checks import (
    EventsRoute,
    GuardedRoute,
    audit,
    needs,
)
from hookwright_api.http.responses import raw_answer
from hookwright_api.idempotency import HEADER, check_key
from hookwright_api.routes.created_objects import IdempotencyKey
from hookwright_api.services import services_of
from hookwright_crds.operations import OPERATION, OPERATIONS, ApiOperation
from hookwright_runtime.held_answers import HeldAnswer, until_gone
from hookwright_runtime.problems import not_found
from hookwright_runtime.validation import query_of

Function = Callable[..., Awaitable[Response]]

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The form of ids of deliveries, events and replays; others cannot exist, and are not put into a path."""


class Call(NamedTuple):
    """A call of an operation by a caller that has the permission.

    Attributes:
        arguments: the arguments of the function, by the names of the parameters.
        project: the name of the project; None: a session calls for its whole organization.
    """

    request: Request
    operation: ApiOperation
    arguments: dict[str, Any]
    project: str | None

    @property
    def target(self) -> str:
        """The object that the audit log names."""
        return str(self.arguments[list(self.operation.parameters)[-1]])

    @property
    def parts(self) -> tuple[str, ...]:
        """The path on the intake, after the namespace."""
        values = {f"{{{name}}}": str(value) for name, value in (self.arguments | {"project": self.project}).items()}
        below = self.operation.path.removeprefix("/v1/").replace("webhooks/", "webhookendpoints/")
        return tuple(values.get(part, part) for part in below.split("/"))

    @property
    def query(self) -> dict[str, str]:
        """The query for the intake.

        Raises:
            ProblemError: 422.
        """
        model = self.operation.query
        arguments = {name: self.arguments[name] for name in model.model_fields} if model else {}
        values = query_of(model, arguments).model_dump(exclude_none=True) if model else {}
        # The other paths name the webhook or the project.
        scope = {"project": self.project} if self.project and not self.operation.scope else {}
        return {name: str(value) for name, value in (values | scope).items()}

    async def ask(self) -> bytes:
        """Return the operator's JSON answer.

        Raises:
            ProblemError: the operator refused the request, or did not answer.
        """
        operation, body = self.operation, self.arguments.get("body")
        return await services_of(self.request).operator.forward(
            operation.method,
            caller_of(self.request).organization,
            *self.parts,
            subject=operation.subject,
            content=body and body.model_dump_json(exclude_none=True).encode(),
            params=self.query,
        )

    def audit(self, action: str, deliveries: Sequence[str] | None = None) -> None:
        """Log the call."""
        audit(self.request, action, target=self.target, project=self.project or "", deliveries=deliveries)


async def _forward(call: Call) -> Response:
    content = await call.ask()
    if call.operation.audit:
        call.audit(call.operation.audit)
    return raw_answer(content, call.operation.status) if content else Response(status_code=call.operation.status)


async def _begin_replay(call: Call) -> Response:
    content = await call.ask()
    if call.arguments["body"].dry_run:
        return raw_answer(content)
    call.audit(call.operation.audit)
    return raw_answer(content, 202, Location=f"/v1/webhooks/{call.target}/replays/{from_json(content)['id']}")


async def _settle(call: Call) -> Response:
    content, action = await call.ask(), call.operation.audit
    result = f"{action.removeprefix('message.')}ed"
    settlements = [message for message in from_json(content)["data"] if message["result"] == result]
    for repeated_action, is_repeated in ((action, False), (f"{action}_repeated", True)):
        messages = [message["id"] for message in settlements if message["repeated"] is is_repeated]
        call.audit(repeated_action, list(dict.fromkeys(message.partition(".")[0] for message in messages)))
    return raw_answer(content)


async def _take_messages(call: Call) -> Response:
    services, organization = services_of(call.request), caller_of(call.request).organization
    query = call.query
    with await services.polls.acquire(organization) as place:
        request = services.operator.take_messages(organization, call.target, query)
        messages = await until_gone(request, call.request.receive, services.ending)
        return HeldAnswer(b'{"data":[]}' if messages is None else messages, place.pop_all())


async def _test_webhook(call: Call) -> Response:
    body, organization = await call.request.body(), caller_of(call.request).organization
    return raw_answer(await services_of(call.request).operator.test(organization, call.target, body))


async def _send_events(call: Call) -> Response:
    request, organization = call.request, caller_of(call.request).organization
    project = one_project(request, None)
    body = await request.body()
    key = check_key(call.arguments["idempotency_key"])
    headers = {} if key is None else {HEADER: key}
    path, subject = ("projects", project, "events"), "the project"
    answer = await services_of(request).operator.forward(
        "POST", organization, *path, subject=subject, content=body, headers=headers
    )
    return raw_answer(answer, 202)


_SPECIAL: Final[dict[str, Callable[[Call], Awaitable[Response]]]] = {
    "beginReplay": _begin_replay,
    "ackMessages": _settle,
    "nackMessages": _settle,
    "takeMessages": _take_messages,
    "testWebhook": _test_webhook,
    "sendEvents": _send_events,
}
"""What more than a forwarded request is done, by the name of the operation."""


def _raw_body(schema: str, *, required: bool) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"requestBody": {"required": required, "content": content}}


_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "testWebhook": {"openapi_extra": _raw_body("TestRequest", required=False)},
    "beginReplay": {
        "responses": {
            200: {
                "model": OPERATION["beginReplay"].answer,
                "description": "The number of deliveries, after a `dry_run`.",
            },
            202: sends("Location") | links("getReplay", id="$request.path.id", replay="$response.body#/id"),
        },
    },
    "sendEvents": {
        "route_class_override": EventsRoute,
        "responses": {202: links("getEvent", id="$response.body#/event_ids/0")},
        "openapi_extra": _raw_body("EventsRequest", required=True),
    },
}
"""What FastAPI must know besides the table."""


def _function_of(operation: ApiOperation) -> Function:
    """Return the function of a route: its parameters are those of the table, after the request."""
    signature, act = _signature(operation), _SPECIAL.get(operation.name, _forward)

    async def function(*arguments: Any, **options: Any) -> Response:
        bound = signature.bind(*arguments, **options)
        bound.apply_defaults()
        request, values = bound.arguments["request"], dict(bound.arguments)
        return await act(Call(request, operation, values, _project(request, operation, values)))

    function.__name__ = function.__qualname__ = operation.function_name
    function.__doc__ = operation.documentation
    vars(function)["__signature__"] = signature
    return needs(operation.permission)(function)


def _signature(operation: ApiOperation) -> inspect.Signature:
    kinds, annotation_type = inspect.Parameter, cast("Any", Annotated)
    parameters = [kinds("request", kinds.POSITIONAL_OR_KEYWORD, annotation=Request)]

    def add(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> None:
        kind = kinds.POSITIONAL_OR_KEYWORD if default is kinds.empty else kinds.KEYWORD_ONLY
        parameters.append(kinds(name, kind, annotation=annotation, default=default))

    for name, noun in operation.parameters.items():
        add(name, Annotated[str, Path(description=f"The {noun}'s {'name or uid' if noun == 'project' else 'id'}.")])
    if operation.body:
        add("body", operation.body)
    for name, field in operation.query.model_fields.items() if operation.query else ():
        parameter = Query(description=field.description, examples=field.examples)
        add(name, annotation_type[(field.annotation, *field.metadata, parameter)], field.default)
    if operation.name == "sendEvents":
        add("idempotency_key", IdempotencyKey, None)
    elif operation.scope != "project":
        add("project", ProjectQuery, None)
    return inspect.Signature(parameters, return_annotation=Response)


def _project(request: Request, operation: ApiOperation, arguments: Mapping[str, Any]) -> str | None:
    """Return the project of a call, after the check that the caller may see the objects in the path.

    Raises:
        ProblemError: 404; 422, a project together with a key.
    """
    if operation.scope == "project":
        return project_named(request, arguments["project"]).identity.name
    project = optional_project(request, arguments.get("project"))
    if operation.scope == "webhook":
        project = endpoint_named(request, arguments["id"], project).project
    ids = [arguments[name] for name, noun in operation.parameters.items() if noun != "webhook"]
    if not all(map(_ID.fullmatch, ids)):
        raise not_found(operation.subject)
    return project


def _router() -> APIRouter:
    router = APIRouter(route_class=GuardedRoute)
    for operation in OPERATIONS:
        router.add_api_route(
            operation.path,
            FUNCTIONS[operation.name],
            methods=[operation.method],
            tags=[operation.tag],
            status_code=operation.status,
            response_model=operation.answer,
            operation_id=operation.name,
            **_OPTIONS.get(operation.name, {}),
        )
    return router


FUNCTIONS: Final = {operation.name: _function_of(operation) for operation in OPERATIONS}
"""The function of each operation, which pages of the console call too."""
router: Final = _router()

begin_replay, cancel_replay, list_replays = (FUNCTIONS[name] for name in ("beginReplay", "cancelReplay", "listReplays"))
list_deliveries, search_deliveries = FUNCTIONS["listDeliveries"], FUNCTIONS["searchDeliveries"]
find_deliveries = FUNCTIONS["findDeliveries"]
get_delivery, retry_delivery = FUNCTIONS["getDelivery"], FUNCTIONS["retryDelivery"]
get_webhook_statistics, get_project_statistics = FUNCTIONS["getWebhookStatistics"], FUNCTIONS["getProjectStatistics"]
test_webhook = FUNCTIONS["testWebhook"]
