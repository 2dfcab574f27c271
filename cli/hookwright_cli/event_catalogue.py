"""The catalogue of event types, from ``event_types.json``, which ``make docs`` writes from the contract."""

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def event_catalogue() -> list[dict[str, Any]]:
    """Return each event type with its channel, meaning, example and wildcards."""
    found: list[dict[str, Any]] = json.loads(files("hookwright_cli").joinpath("event_types.json").read_text("utf-8"))
    return found
