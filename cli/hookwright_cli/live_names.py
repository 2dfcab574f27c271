"""Shell completion of names. A completion never fails: without an answer there are no suggestions."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import typer

from hookwright_cli.contract import event_types
from hookwright_cli.deadline import DEADLINE
from hookwright_cli.verbs import is_plugin
from hookwright_cli.way_choice import WayOptions, open_way

if TYPE_CHECKING:
    from hookwright_cli.way_choice import Way

_MOST = 100
_SECONDS = 5.0


@contextmanager
def _way_of(ctx: typer.Context) -> Iterator["Way"]:
    before_the_verb = ctx.find_root().params
    names = [option.name for option in fields(WayOptions) if option.name != "plugin"]
    given = {name: str(ctx.params.get(name) or before_the_verb.get(name) or "") for name in names}
    # A shell waits for the answer while the user types.
    DEADLINE.begin(_SECONDS, notice=None)
    way = open_way(WayOptions(**given, plugin=is_plugin()))
    try:
        yield way
    finally:
        way.close()


def _beginning_with(incomplete: str, read: Callable[[], list[str]]) -> list[str]:
    # A completion that fails must print nothing: the shell would show it inside the command line.
    with suppress(Exception):
        return [name for name in read() if name.startswith(incomplete)][:_MOST]
    return []


def _names(ctx: typer.Context, incomplete: str, read: Callable[["Way"], Iterable[Any]]) -> list[str]:
    def names() -> list[str]:
        with _way_of(ctx) as way:
            return [str(name) for name in read(way)]

    return _beginning_with(incomplete, names)


def endpoint_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of endpoints."""
    return _names(ctx, incomplete, lambda way: [endpoint["id"] for endpoint in way.endpoints()])


def delivery_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the ids of the newest deliveries."""
    return _names(ctx, incomplete, lambda way: [delivery["id"] for delivery in way.deliveries({}, _MOST)])


def key_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the ids of API keys."""
    return _names(ctx, incomplete, lambda way: [key["id"] for key in way.api_keys()])


def user_emails(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the emails of users; only a kubeconfig shows them."""
    return _names(ctx, incomplete, lambda way: [user["email"] for user in way.users()] if way.kind != "api" else [])


def context_names(incomplete: str) -> list[str]:
    """Return the names of contexts."""
    from hookwright_cli import contexts

    return _beginning_with(incomplete, lambda: sorted(contexts.load().known))


def type_names(incomplete: str) -> list[str]:
    """Return event types."""
    return _beginning_with(incomplete, lambda: [one["type"] for one in event_types()])
