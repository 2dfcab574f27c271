"""Test events: one signed request to one endpoint now, with an example for each event type."""

import json
from dataclasses import replace
from typing import Any, Final

from starlette.responses import Response

from hookwright_api.console.form_fields import Form
from hookwright_api.console.page_route import action, page
from hookwright_api.console.visit import Visit
from hookwright_api.http.request_checks import with_body
from hookwright_api.routes.operator_routes import test_webhook
from hookwright_crds.events import CATALOGUE, EVENT_TYPES, example
from hookwright_crds.permissions import TEST
from hookwright_runtime.problems import FieldFault, invalid

_MAX_OPTIONS: Final = 100
"""Most endpoints in the list of the form; with more, the id of an endpoint is typed."""
_EXAMPLES: Final = {
    name: json.dumps({field: value for field, value in example(name).items() if field != "type"}, indent=2)
    for name in EVENT_TYPES
}


@page("/projects/{project}/test", permission=TEST)
async def show_test(visit: Visit) -> Response:
    """Show the form; the query may choose the endpoint and the type."""
    return _page(visit, None)


def _page(visit: Visit, result: dict[str, Any] | None) -> Response:
    name = visit.query.get("type", "")
    kind = name if name in EVENT_TYPES else EVENT_TYPES[0]
    default = {"endpoint": [visit.query.get("endpoint", "")], "type": [kind], "payload": [_EXAMPLES[kind]]}
    # A test is a request to a URL.
    endpoints = [record for record in visit.endpoints if record.endpoint.spec.url]
    return visit.render(
        "test_event.html",
        endpoints=endpoints[:_MAX_OPTIONS],
        has_more=len(endpoints) > _MAX_OPTIONS,
        form=Form({**default, **visit.form}),
        catalogue=CATALOGUE,
        examples=_EXAMPLES,
        result=result,
    )


@action("/projects/{project}/test", uses=(test_webhook,), again=show_test)
async def send_test(visit: Visit) -> Response:
    """Send a test, and show its result."""
    name = visit.form.text("endpoint")
    body = json.dumps({"type": visit.form.text("type"), "payload": _payload(visit.form)}).encode()
    if not name:
        raise invalid(FieldFault("endpoint", "choose an endpoint"))
    sending = replace(visit, request=with_body(visit.request, body))
    result = await sending.call(test_webhook, name, project=visit.project.identity.name)
    return _page(visit, {**result, "endpoint": name})


def _payload(form: Form) -> dict[str, Any]:
    try:
        payload = json.loads(form.raw("payload") or "{}")
    except (ValueError, RecursionError) as error:
        position = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise invalid(FieldFault("payload", f"must be JSON{position}")) from None
    if not isinstance(payload, dict):
        raise invalid(FieldFault("payload", "must be a JSON object, such as {}"))
    return payload
