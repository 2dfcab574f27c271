"""The API keys of a project: listing, created, revoked."""

from datetime import UTC, datetime, timedelta
from typing import Final

from starlette.responses import Response

from hookwright_api.console.form_fields import Form, fields_of, validated
from hookwright_api.console.page_route import action, page
from hookwright_api.console.routes.first_delivery import steps_page
from hookwright_api.console.visit import Visit
from hookwright_api.routes.keys import create_key, delete_key, list_keys
from hookwright_api.routes.operator_routes import search_deliveries
from hookwright_crds.documents.key_bodies import KeyRequest
from hookwright_crds.keys import KeyScope
from hookwright_crds.permissions import ADMINISTER
from hookwright_runtime.problems import FieldFault, invalid, not_found

SCOPES: Final = {
    KeyScope.SEND: "Send events and tests",
    KeyScope.READ: "Read endpoints, deliveries and statistics",
    KeyScope.MANAGE: "Create, change and delete endpoints; send deliveries again",
    KeyScope.PULL: "Take and acknowledge messages",
}
"""The rights of a key in words."""
LIFETIMES: Final = {"": "Never", "30": "In 30 days", "90": "In 90 days", "365": "In a year"}
"""The offered times of expiry, in days."""


@page("/projects/{project}/keys", uses=(list_keys,))
async def show_keys(visit: Visit) -> Response:
    """List the keys of a project; never a key itself."""
    listing = await visit.call(list_keys, visit.project.identity.name)
    return visit.render("keys.html", keys=listing["data"], now=visit.services.now())


@page("/projects/{project}/new-key", permission=ADMINISTER)
async def show_new_key(visit: Visit) -> Response:
    """Show the form for a key."""
    form = visit.form or Form({"scopes": [*KeyScope]})
    return visit.render("new_key.html", form=form, fields=fields_of(KeyRequest), scopes=SCOPES, lifetimes=LIFETIMES)


@action("/projects/{project}/new-key", uses=(create_key, search_deliveries), again=show_new_key)
async def make_key(visit: Visit) -> Response:
    """Create a key, and show it once, with commands that send an event."""
    form = visit.form
    document = {
        "name": form.text("name"),
        "scopes": form.all("scopes"),
        "expires_at": _expiry(form.text("lifetime"), visit.services.now()),
    }
    body, request_key = validated(KeyRequest, document), form.text("request_key") or None
    answer = await visit.call(create_key, visit.project.identity.name, body, idempotency_key=request_key)
    return await steps_page(visit, since=answer["created_at"], key=answer)


def _expiry(days: str, now: datetime) -> datetime | None:
    """Return the end of a day, because a form that is sent twice must ask for the same key."""
    if days not in LIFETIMES:
        raise invalid(FieldFault("lifetime", "choose one of the offered times"))
    last_day = now.astimezone(UTC) + timedelta(days=int(days or "0"))
    return last_day.replace(hour=23, minute=59, second=59, microsecond=0) if days else None


@page("/projects/{project}/keys/{key}/revoke", permission=ADMINISTER)
async def ask_revocation(visit: Visit) -> Response:
    """Show which key is revoked, and when it was used last."""
    key = visit.services.view.keys.get(visit.organization, visit.request.path_params["key"])
    if key is None or key.project != visit.project.identity.name:
        raise not_found("the key")
    return visit.render("revoke_key.html", key=key)


@action("/projects/{project}/keys/{key}/revoke", uses=(delete_key,))
async def revoke_key(visit: Visit) -> Response:
    """Revoke a key."""
    await visit.call(delete_key, visit.project.identity.name, visit.request.path_params["key"])
    return visit.see(f"{visit.here}/keys", notice="key-revoked")
