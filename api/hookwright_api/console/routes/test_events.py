"""Test events: one signed request to one endpoint now, with an example for each event type."""

import json
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from hookwright_api.console.form_fields import Form, faults_of
from hookwright_api.console.lookup import project_of
from hookwright_api.console.operations import call
from hookwright_api.console.page_route import ConsoleRoutes
from hookwright_api.console.templating import render
from hookwright_api.console.visits import form_of
from hookwright_api.http.guarded_route import caller_of, with_body
from hookwright_api.routes.operator_routes import test_webhook
from hookwright_api.services import services_of
from hookwright_crds.events import CATALOGUE, EVENT_TYPES, example
from hookwright_crds.permissions import TEST
from hookwright_runtime.problems import FieldFault, ProblemError, invalid

console = ConsoleRoutes()

_OFFERED: Final = 100
"""Most endpoints in the list of the form; with more, the id of an endpoint is typed."""
_EXAMPLES: Final = {
    name: json.dumps({field: value for field, value in example(name).items() if field != "type"}, indent=2)
    for name in EVENT_TYPES
}


@console.page("/projects/{project}/test", permission=TEST)
async def show_test(request: Request) -> Response:
    """Show the form; the query may choose the endpoint and the type."""
    chosen = request.query_params.get("type", "")
    kind = chosen if chosen in EVENT_TYPES else EVENT_TYPES[0]
    written = {"endpoint": [request.query_params.get("endpoint", "")], "type": [kind], "payload": [_EXAMPLES[kind]]}
    return _form(request, Form(written))


def _form(
    request: Request, form: Form, problem: ProblemError | None = None, result: Mapping[str, Any] | None = None
) -> Response:
    project = project_of(request)
    where = (caller_of(request).organization, project.identity.name)
    every = services_of(request).view.endpoints.find("project", where)
    # A test is a request to a URL.
    endpoints = [one for one in every if one.endpoint.spec.url]
    return render(
        request,
        "test_event.html",
        problem.status if problem else 200,
        project=project,
        endpoints=endpoints[:_OFFERED],
        has_more=len(endpoints) > _OFFERED,
        form=form,
        catalogue=CATALOGUE,
        examples=_EXAMPLES,
        problem=problem,
        faults=faults_of(problem) if problem else {},
        result=result,
    )


@console.action("/projects/{project}/test", uses=(test_webhook,))
async def send_test(request: Request) -> Response:
    """Send a test, and show its result."""
    project, form = project_of(request), form_of(request)
    try:
        body = json.dumps({"type": form.text("type"), "payload": _payload(form)}).encode()
        name = form.text("endpoint")
        if not name:
            raise invalid(FieldFault("endpoint", "choose an endpoint"))
        result = await call(with_body(request, body), test_webhook, name, project=project.identity.name)
    except ProblemError as problem:
        return _form(request, form, problem)
    return _form(request, form, result={**result, "endpoint": name})


def _payload(form: Form) -> dict[str, Any]:
    try:
        payload = json.loads(form.raw("payload") or "{}")
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise invalid(FieldFault("payload", f"must be JSON{where}")) from None
    if not isinstance(payload, dict):
        raise invalid(FieldFault("payload", "must be a JSON object, such as {}"))
    return payload
