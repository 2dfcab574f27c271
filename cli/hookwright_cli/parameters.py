"""Arguments and options of several commands, and the completion of their values."""

from itertools import chain
from typing import Annotated, Any

import typer

from hookwright_cli.contract import EVENT_TYPES
from hookwright_cli.way_choice import completed, completed_by, option

endpoint_names = completed_by(lambda way: [endpoint["id"] for endpoint in way.endpoints()])
delivery_ids = completed_by(lambda way: [delivery["id"] for delivery in way.deliveries({}, 100)])
key_ids = completed_by(lambda way: [key["id"] for key in way.api_keys()])
# Only a kubeconfig shows users.
user_emails = completed_by(lambda way: [user["email"] for user in way.users()] if way.kind != "api" else [])
type_names = completed(lambda _: EVENT_TYPES)
_WILDCARDS = dict.fromkeys(chain.from_iterable(event["wildcards"] for event in EVENT_TYPES.values()))
type_patterns = completed(lambda _: [*_WILDCARDS, *EVENT_TYPES], separator=",")
"""Event types and wildcards."""


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
