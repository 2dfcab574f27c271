"""The search over all projects of the organization: deliveries by an id or a recipient, endpoints and keys."""

from collections.abc import Iterator
from typing import Any, Final, TypeVar

from starlette.responses import Response

from hookwright_api.console.form_fields import validated
from hookwright_api.console.navigation import console_path
from hookwright_api.console.page_route import action, page
from hookwright_api.console.routes.deliveries import PAGE, rows_of, send_marked_again
from hookwright_api.console.templating import NOTICES
from hookwright_api.console.visit import Visit, attempt
from hookwright_api.routes.operator_routes import find_deliveries, retry_delivery
from hookwright_api.view.table import Record, Table
from hookwright_api.view.table_records import KeyRecord
from hookwright_crds.documents.delivery_bodies import DeliverySearch
from hookwright_crds.keys import MalformedKeyError, digest, key_id_of

_CONDITIONS: Final = ("message_id", "event_id", "recipient")
"""The first one that finds a delivery counts. Only the last one has no index."""
_LIST_LIMIT: Final = 20
"""Endpoints and keys that a search lists."""

R = TypeVar("R", bound=Record)


@page("/search")
async def show_search(visit: Visit) -> Response:
    """Show an empty search. The text of a search is in no address, because a recipient is personal."""
    return await _show(visit)


@action("/search", uses=(find_deliveries,))
async def search(visit: Visit) -> Response:
    """Show what a text finds."""
    return await _show(visit)


@action("/search/again", uses=(retry_delivery, find_deliveries), again=search)
async def send_found_again(visit: Visit) -> Response:
    """Send the marked deliveries again, and repeat the search."""
    await send_marked_again(visit, None)
    return await _show(visit, notice=NOTICES["deliveries-again"])


async def _show(visit: Visit, **notice: Any) -> Response:
    text, view = visit.form.text("q"), visit.services.view
    listing: dict[str, Any] = {"data": [], "next": None}
    problem = visit.problem
    endpoints = []
    if text and not _is_key(text):
        answer, refusal = await attempt(_deliveries(visit, text))
        listing, problem = answer or listing, problem or refusal
        endpoints = [record for record in _records(visit, view.endpoints) if text.lower() in record.searchable]
    return visit.render(
        "search.html",
        searched=bool(text),
        # A whole key is not shown again.
        search_text="" if _is_key(text) else text,
        listing=listing,
        deliveries=[row for row in rows_of(visit, listing["data"]) if row["project"]],
        with_endpoints=True,
        again_path=console_path("search", "again"),
        endpoints=endpoints,
        keys=[record for record in _records(visit, view.keys) if text and _names(record, text)],
        most=_LIST_LIMIT,
        problem=problem,
        **notice,
    )


async def _deliveries(visit: Visit, text: str) -> dict[str, Any]:
    """Return the newest deliveries of a message or an event, or to a recipient; a further page has the same condition.

    Raises:
        ProblemError: the refusal of ``/v1``; 422, the text is too long or is not printable.
    """
    choice, cursor = visit.form.text("condition"), visit.form.text("cursor") or None
    listing: dict[str, Any] = {}
    for condition in (choice,) if choice in _CONDITIONS else _CONDITIONS:
        conditions = validated(DeliverySearch, {condition: text, "limit": PAGE, "cursor": cursor})
        listing = {**await visit.call(find_deliveries, conditions), "condition": condition}
        if listing["data"]:
            break
    return listing


def _records(visit: Visit, table: Table[R]) -> Iterator[R]:
    """Yield the objects of all projects of the organization."""
    for project in visit.services.view.projects.find("organization", visit.organization):
        yield from table.find("project", (visit.organization, project.identity.name))


def _is_key(text: str) -> bool:
    """Return whether a text is a whole key, which is a secret."""
    try:
        return bool(key_id_of(text))
    except MalformedKeyError:
        return False


def _names(key: KeyRecord, text: str) -> bool:
    """Return whether a text is a part of a key's name or id, or is the key itself."""
    names = f"{key.display_name}\n{key.identity.name}\n{key.key_id}"
    return text.lower() in names.lower() or digest(text) in key.confirmed_digests
