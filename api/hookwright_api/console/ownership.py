"""The owner of an endpoint's fields, because only the owner can change them."""

import asyncio
import shlex
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from hookwright_api.console.operations import attempt
from hookwright_api.services import services_of
from hookwright_api.view.table_records import EndpointRecord
from hookwright_api.webhook_operations.webhook_changes import read_live
from hookwright_api.webhook_operations.webhook_document import owner_of

_LIVE_SECONDS: Final = 1.0
"""Time limit for the API server, so that the pages of an endpoint are shown without it."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """Who may change an endpoint.

    Attributes:
        manager: the field manager or the tool that owns the fields; empty if `/v1` owns them.
        edit_command: changes the endpoint.
        delete_command: deletes it.
    """

    manager: str
    edit_command: str
    delete_command: str

    @property
    def declared(self) -> bool:
        """Whether the endpoint cannot be changed here."""
        return bool(self.manager)

    @property
    def sentence(self) -> str:
        """The reason."""
        return (
            f'This endpoint is declared in YAML: "{self.manager}" owns its fields. Change it there, for example in the '
            "Git repository that it comes from. A change made here would be undone."
        )


async def ownership_of(request: Request, endpoint: EndpointRecord) -> Ownership:
    """Return the owner, by the field managers; without the API server, by the labels that the view keeps."""
    identity = endpoint.identity
    live = None
    with suppress(TimeoutError):
        async with asyncio.timeout(_LIVE_SECONDS):
            live, _ = await attempt(read_live(services_of(request), identity))
    manager = (owner_of(live) or "") if live is not None else identity.declared_by
    where = f"{shlex.quote(identity.name)} -n {shlex.quote(identity.namespace)}"
    return Ownership(manager, f"kubectl edit webhookendpoint {where}", f"kubectl delete webhookendpoint {where}")
