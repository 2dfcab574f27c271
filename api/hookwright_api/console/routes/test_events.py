"""Tests of an endpoint: one signed request now, with an example for each event type."""

import json
from dataclasses import replace
from typing import Any, Final

from starlette.responses import Response

from hookwright_api.console.form_fields import Form
from hookwright_api.console.page_route import action, page
from hookwright_api.console.routes.deliveries import delivery_of
from hookwright_api.console.visit import Visit, attempt
from hookwright_api.console.webhook_form import event_groups
from hookwright_api.console.words import json_text
from hookwright_api.http.request_checks import with_body
from hookwright_api.routes.operator_routes import get_delivery, test_webhook
from hookwright_crds.permissions import TEST
from hookwright_runtime.problems import FieldFault, invalid

_TEST: Final = "/projects/{project}/endpoints/{endpoint}/test"


@page(_TEST, permission=TEST)
async def show_test(visit: Visit) -> Response:
    """Show the form."""
    return _page(visit)


def _page(visit: Visit, *, result: Any = None, delivery: Any = None) -> Response:
    event_types = {name: document for name, document in visit.event_types.items() if document["wildcards"]}
    examples = {
        name: json_text({field: value for field, value in example.items() if field != "type"})
        if isinstance(example := document["example"], dict)
        else example or "{}"
        for name, document in event_types.items()
    }
    names = [*visit.endpoint.endpoint.spec.events, *event_types]
    kind = next(name for name in names if name in event_types)
    return visit.render(
        "test_event.html",
        form=Form({"type": [kind], "payload": [examples[kind]], **visit.form}),
        groups=event_groups(event_types),
        examples=examples,
        result=result,
        delivery=delivery,
    )


@action(_TEST, uses=(test_webhook, get_delivery), again=show_test)
async def send_test(visit: Visit) -> Response:
    """Send a test, and show its result with the receiver's answer, if the delivery log has it."""
    body = json.dumps({"type": visit.form.text("type"), "payload": _payload(visit.form)}).encode()
    document = await replace(visit, request=with_body(visit.request, body)).call_endpoint(test_webhook)
    result = {"error": None, "delivery_id": None, **document}
    name = result["delivery_id"]
    delivery, _ = await attempt(delivery_of(visit, name)) if name else (None, None)
    return _page(visit, result=result, delivery=delivery)


def _payload(form: Form) -> dict[str, Any]:
    try:
        payload = json.loads(form.raw("payload") or "{}")
    except (ValueError, RecursionError) as error:
        position = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise invalid(FieldFault("payload", f"must be JSON{position}")) from None
    if not isinstance(payload, dict):
        raise invalid(FieldFault("payload", "must be a JSON object, such as {}"))
    return payload
