"""Arguments and options of several commands, and their shell completion, which never fails: it has no suggestions."""

from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookwright_cli.contract import EVENT_TYPES
from hookwright_cli.deadline import DEADLINE
from hookwright_cli.way_choice import OPTIONS, WayOptions, open_way, option

if TYPE_CHECKING:
    from hookwright_cli.way_choice import Way

_MOST = 100
_SECONDS = 5.0


def _beginning_with(incomplete: str, read: Callable[[], Iterable[str]]) -> list[str]:
    # A completion that fails must print nothing: the shell would show it inside the command line.
    with suppress(Exception):
        return [name for name in read() if name.startswith(incomplete)][:_MOST]
    return []


def _completion(read: Callable[["Way"], Iterable[str]]) -> Callable[[typer.Context, str], list[str]]:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        def names() -> list[str]:
            before_the_verb = ctx.find_root().params
            options: dict[str, Any] = {
                name: str(ctx.params.get(name) or before_the_verb.get(name) or "") for name in OPTIONS
            }
            # A shell waits for the answer while the user types.
            DEADLINE.notice_seconds = None
            DEADLINE.begin(_SECONDS)
            with closing(open_way(WayOptions(**options))) as way:
                return list(read(way))

        return _beginning_with(incomplete, names)

    return complete


endpoint_names = _completion(lambda way: [endpoint["id"] for endpoint in way.endpoints()])
delivery_ids = _completion(lambda way: [delivery["id"] for delivery in way.deliveries({}, _MOST)])
key_ids = _completion(lambda way: [key["id"] for key in way.api_keys()])
# Only a kubeconfig shows users.
user_emails = _completion(lambda way: [user["email"] for user in way.users()] if way.kind != "api" else [])


def context_names(incomplete: str) -> list[str]:
    """Return the names of contexts."""
    from hookwright_cli import contexts

    return _beginning_with(incomplete, lambda: sorted(contexts.load().by_name))


def type_names(incomplete: str) -> list[str]:
    """Return event types."""
    return _beginning_with(incomplete, lambda: EVENT_TYPES)


def argument(metavar: str, text: str | None = None, **settings: Any) -> Any:
    """Return an argument of a command."""
    return typer.Argument(metavar=metavar, help=text, **settings)


Endpoint = Annotated[str, argument("ENDPOINT", autocompletion=endpoint_names)]
Delivery = Annotated[str, argument("DELIVERY", autocompletion=delivery_ids)]
Type = Annotated[str, option("--type", "TYPE", "Event type.", autocompletion=type_names)]
Types = Annotated[list[str] | None, option("--type", "TYPE", "Event type; repeat it.", autocompletion=type_names)]
Since = Annotated[str, option("--since", "2h|TIME", "A duration before now, or a time.")]
Until = Annotated[str, option("--until", "1h|TIME", "A duration before now, or a time.")]
Yes = Annotated[bool, option("--yes -y", None, "Do not ask.")]
Watch = Annotated[bool, option("--watch -w", None, "Print changes until Ctrl-C.")]
