"""Shell completion of names. A completion never fails: without an answer there are no suggestions."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files
from typing import Any

import typer

from hookwright_cli.deadline import DEADLINE
from hookwright_cli.verbs import is_plugin
from hookwright_cli.way_choice import WayOptions, open_way
from hookwright_cli.ways.way import Way

_MOST = 100
_SECONDS = 5.0
_OPTIONS = (
    "way", "context", "url", "project", "namespace", "kubeconfig", "kube_context", "installation", "service_account",
)  # fmt: skip


@contextmanager
def _way_of(ctx: typer.Context) -> Iterator[Way]:
    before_the_verb = ctx.find_root().params
    given = {name: str(ctx.params.get(name) or before_the_verb.get(name) or "") for name in _OPTIONS}
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


def endpoint_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of endpoints."""

    def read() -> list[str]:
        with _way_of(ctx) as way:
            return [str(one["id"]) for one in way.endpoints()]

    return _beginning_with(incomplete, read)


def delivery_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the ids of the newest deliveries."""

    def read() -> list[str]:
        with _way_of(ctx) as way:
            return [str(one["id"]) for one in way.deliveries({}, _MOST)]

    return _beginning_with(incomplete, read)


def key_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the ids of API keys."""

    def read() -> list[str]:
        with _way_of(ctx) as way:
            return [str(one["id"]) for one in way.api_keys()]

    return _beginning_with(incomplete, read)


def user_emails(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the emails of users."""

    def read() -> list[str]:
        with _way_of(ctx) as way:
            return [str(one["email"]) for one in way.users()]

    return _beginning_with(incomplete, read)


def context_names(incomplete: str) -> list[str]:
    """Return the names of contexts."""
    from hookwright_cli import contexts

    return _beginning_with(incomplete, lambda: sorted(contexts.load().known))


@cache
def event_catalogue() -> list[dict[str, Any]]:
    """Return each event type with its channel, meaning, example and wildcards; ``make docs`` writes the file."""
    found: list[dict[str, Any]] = json.loads(files("hookwright_cli").joinpath("event_types.json").read_text("utf-8"))
    return found


def type_names(incomplete: str) -> list[str]:
    """Return event types."""
    return _beginning_with(incomplete, lambda: [one["type"] for one in event_catalogue()])
