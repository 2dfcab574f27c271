"""Pure: the fields of an EventType that people set."""

from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, StrictBool
from pydantic_core import to_json

from hookwright_crds.base import Model
from hookwright_crds.structural_schema import FREE_FIELDS

MAX_FREE_BYTES: Final = 16_384
"""Most bytes of the example of an EventType, and of its schema, as JSON."""
MAX_FREE_FIELDS: Final = 256
"""Most fields at the top of each; the API server can bound no more of them."""


def _bounded(fields: dict[str, Any]) -> dict[str, Any]:
    if (size := len(to_json(fields))) > MAX_FREE_BYTES:
        raise ValueError(f"has {size} bytes as JSON; at most {MAX_FREE_BYTES} are accepted")
    return fields


FreeFields = Annotated[
    dict[str, Any], Field(max_length=MAX_FREE_FIELDS, json_schema_extra={FREE_FIELDS: True}), AfterValidator(_bounded)
]
"""A JSON object whose fields the tenant chooses."""


class EventTypeSpec(Model):
    """The spec of an EventType: what its events mean, and what they look like."""

    meaning: str = Field(description="When the event happens, in a sentence.", min_length=1, max_length=1024)
    example: FreeFields | None = Field(
        default=None, description="Example of the fields besides the type, up to 16 KiB as JSON."
    )
    payload_schema: FreeFields | None = Field(
        default=None,
        description="A JSON Schema for people, up to 16 KiB. No event is refused by it.",
    )
    deprecated: StrictBool = Field(default=False, description="true: new receivers should not use the type.")
