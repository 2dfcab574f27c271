"""The pages of one endpoint: its state, configuration, charts and signing secret, and the forms that change it."""

import asyncio
from contextlib import suppress
from typing import Any, Final

from starlette.responses import Response

from hookwright_api.console import webhook_form
from hookwright_api.console.charts import HEIGHT, WIDTH, WINDOWS, charts_of
from hookwright_api.console.form_fields import Form, fields_of, read_request, validated
from hookwright_api.console.navigation import console_path
from hookwright_api.console.page_route import action, page
from hookwright_api.console.visit import Visit, attempt
from hookwright_api.console.webhook_form import (
    FIELDS,
    applied_fields,
    document_in,
    form_of,
    patch_in,
    subscription_groups,
)
from hookwright_api.routes.operator_routes import get_webhook_statistics
from hookwright_api.routes.webhook_creation import create_webhook
from hookwright_api.routes.webhook_secrets import get_secret, rotate_secret
from hookwright_api.routes.webhooks import delete_webhook, get_webhook, read_live, update_webhook
from hookwright_api.webhook_credentials import hidden_credentials
from hookwright_api.webhook_document import document_of, etag_of, merged, owner_of
from hookwright_crds.documents.webhook_bodies import RotationRequest, WebhookPatch, WebhookRequest
from hookwright_crds.endpoint_fields import HIDDEN_FIELDS
from hookwright_crds.events import OPERATIONAL_TYPES
from hookwright_crds.permissions import EDIT, MANAGE
from hookwright_runtime.problems import Code, ProblemError

_ENDPOINT: Final = "/projects/{project}/endpoints/{endpoint}"
_NEW: Final = "/projects/{project}/new-endpoint"
_EDIT: Final = _ENDPOINT + "/edit"
_DEFAULT_WINDOW: Final = "24h"
_LIVE_SECONDS: Final = 1.0
"""Time limit for the API server, so that the pages of an endpoint are shown without it."""


async def manager_of(visit: Visit) -> str:
    """Return the field manager or the tool that owns the endpoint's fields; empty if `/v1` owns them.

    Without the API server the answer comes from the labels that the view keeps.
    """
    identity = visit.endpoint.identity
    live = None
    with suppress(TimeoutError):
        async with asyncio.timeout(_LIVE_SECONDS):
            live, _ = await attempt(read_live(visit.services, identity))
    return (owner_of(live) or "") if live is not None else identity.declared_by


async def _page(visit: Visit, template: str, **context: Any) -> Response:
    return visit.render(template, manager=await manager_of(visit), **context)


@page(_ENDPOINT, uses=(get_webhook,))
async def show_endpoint(visit: Visit) -> Response:
    """Show the state of an endpoint in words, and its counts."""
    return await _page(visit, "endpoint.html")


@page(_ENDPOINT + "/configuration", uses=(get_webhook,))
async def show_configuration(visit: Visit) -> Response:
    """Show how deliveries are sent."""
    document = document_of(visit.endpoint.endpoint)
    visible = {name: value for name, value in document.items() if name not in HIDDEN_FIELDS}
    hidden_names = {name: sorted(document[name]) for name in HIDDEN_FIELDS}
    return await _page(
        visit, "configuration.html", fields=applied_fields(document), document={**visible, **hidden_names}
    )


@action(_ENDPOINT + "/suspend", uses=(update_webhook,))
async def suspend(visit: Visit) -> Response:
    """Suspend deliveries."""
    await visit.call_endpoint(update_webhook, WebhookPatch(enabled=False))
    return visit.see(visit.here, notice="endpoint-suspended")


@action(_ENDPOINT + "/resume", uses=(update_webhook,))
async def resume(visit: Visit) -> Response:
    """Resume deliveries."""
    await visit.call_endpoint(update_webhook, WebhookPatch(enabled=True))
    return visit.see(visit.here, notice="endpoint-resumed")


@page(_ENDPOINT + "/delete", permission=MANAGE)
async def ask_deletion(visit: Visit) -> Response:
    """Show what the deletion discards."""
    return await _page(visit, "delete_endpoint.html")


@action(_ENDPOINT + "/delete", uses=(delete_webhook,), again=ask_deletion)
async def remove_endpoint(visit: Visit) -> Response:
    """Delete an endpoint."""
    await visit.call_endpoint(delete_webhook)
    return visit.see(console_path("projects", visit.project.identity.name), notice="endpoint-deleted")


@page(_ENDPOINT + "/secret", permission=EDIT)
async def show_secret_page(visit: Visit) -> Response:
    """Show the form that rotates the secret; `reveal_secret` shows the secret itself."""
    return await _secret(visit)


async def _secret(visit: Visit, *, answer: Any = None, is_rotated: bool = False) -> Response:
    fields, overlap = fields_of(RotationRequest), visit.endpoint.endpoint.spec.signing.overlap
    form = Form({"overlap": [visit.form.text("overlap") or overlap]})
    return await _page(visit, "secret.html", form=form, fields=fields, answer=answer, is_rotated=is_rotated)


@action(_ENDPOINT + "/secret/reveal", uses=(get_secret,), again=show_secret_page)
async def reveal_secret(visit: Visit) -> Response:
    """Show the secret; the audit log has a line for it."""
    return await _secret(visit, answer=await visit.call_endpoint(get_secret))


@action(_ENDPOINT + "/secret/rotate", uses=(rotate_secret,), again=show_secret_page)
async def make_secret(visit: Visit) -> Response:
    """Rotate the secret, and show the new one."""
    body, request_key = read_request(RotationRequest, visit.form), visit.form.text("request_key") or None
    answer = await visit.call_endpoint(rotate_secret, body=body, idempotency_key=request_key)
    return await _secret(visit, answer=answer, is_rotated=True)


@page(_ENDPOINT + "/statistics", uses=(get_webhook_statistics,))
async def show_statistics(visit: Visit) -> Response:
    """Show deliveries and latencies of an hour, a day or a week; the endpoint's first page includes them too."""
    window = visit.query.get("window", _DEFAULT_WINDOW)
    window = window if window in WINDOWS else _DEFAULT_WINDOW
    statistics, problem = await attempt(visit.call_endpoint(get_webhook_statistics, window=window))
    return visit.render(
        "statistics.html",
        window=window,
        windows=WINDOWS,
        charts=charts_of(statistics) if statistics else None,
        statistics=statistics or {},
        now=visit.services.now(),
        size=(WIDTH, HEIGHT),
        problem=problem,
    )


def _form(visit: Visit, document: dict[str, Any], *, manager: str = "", etag: str = "") -> Response:
    form = visit.form or form_of(document)
    return visit.render(
        "endpoint_form.html",
        form=form,
        fields=FIELDS,
        rules=webhook_form,
        event_groups=subscription_groups(visit.event_types, form.all("events")),
        hidden=webhook_form.hidden_names(document),
        manager=manager,
        etag=etag,
    )


@page(_NEW, permission=MANAGE)
async def show_new_endpoint(visit: Visit) -> Response:
    """Show the form for an endpoint; ``?events=operational`` ticks the operational events."""
    return _form(visit, {"events": OPERATIONAL_TYPES} if visit.query.get("events") == "operational" else {})


@action(_NEW, uses=(create_webhook,), again=show_new_endpoint)
async def make_endpoint(visit: Visit) -> Response:
    """Create an endpoint, and show its signing secret."""
    answer = await endpoint_by_form(visit, validated(WebhookRequest, merged({}, document_in(visit.form))))
    return visit.render("made_endpoint.html", 201, answer=answer)


async def endpoint_by_form(visit: Visit, body: WebhookRequest) -> Any:
    """Create an endpoint once for each form that was shown, and return the answer of ``/v1``.

    Raises:
        ProblemError: the refusal of ``/v1``.
    """
    options = {"project": visit.project.identity.name, "idempotency_key": visit.form.text("request_key") or None}
    try:
        return await visit.call(create_webhook, body, **options)
    except ProblemError as problem:
        if problem.code is not Code.IDEMPOTENCY_KEY_REUSED:
            raise
        raise ProblemError(
            409,
            "your first request created the endpoint, with other fields; it is in the list of endpoints, where you can "
            "change it",
        ) from None


@page(_EDIT, permission=MANAGE)
async def show_edit(visit: Visit) -> Response:
    """Show the form with the present fields."""
    endpoint = visit.endpoint.endpoint
    etag = visit.form.text("etag") if visit.form else etag_of(endpoint.metadata)
    document = {**document_of(endpoint), **hidden_credentials(endpoint)}
    return _form(visit, document, manager=await manager_of(visit), etag=etag)


@action(_EDIT, uses=(update_webhook,), again=show_edit)
async def change_endpoint(visit: Visit) -> Response:
    """Change an endpoint, unless it changed since the form was shown."""
    patch = validated(WebhookPatch, patch_in(visit.form, document_of(visit.endpoint.endpoint)))
    await visit.call_endpoint(update_webhook, patch, if_match=visit.form.text("etag") or None)
    return visit.see(f"{visit.here}/configuration", notice="endpoint-changed")
