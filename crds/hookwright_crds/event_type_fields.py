"""Pure: the fields of an EventType that people set."""

from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, StrictBool, StringConstraints
from pydantic_core import from_json

from hookwright_crds.base import Model

MAX_TEXT_LENGTH: Final = 16_384
"""Most characters of the example of an EventType, and of its schema."""
_SENTENCE: Final = "must be the text of a JSON object, such as '{\"amount\": 129.9}'"


def _with_object(text: str) -> str:
    object_in(text)
    return text


def object_in(text: str | None) -> dict[str, Any]:
    """Return the JSON object of such a text, empty for None; raise ValueError if there is none, or it is too deep."""
    try:
        value = from_json(text or "{}", allow_inf_nan=False)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ValueError(_SENTENCE)  # noqa: TRY004 - pydantic reports a ValueError
    return value


JsonObject = Annotated[str, StringConstraints(max_length=MAX_TEXT_LENGTH), AfterValidator(_with_object)]
"""The text of a JSON object. As a field with free contents, a small object could cost a hundred times its size."""


class EventTypeSpec(Model):
    """The spec of an EventType: what its events mean, and what they look like."""

    meaning: str = Field(description="When the event happens, in a sentence.", min_length=1, max_length=1024)
    example: JsonObject | None = Field(
        default=None,
        description="Example of the fields besides the type, as the text of a JSON object, up to 16,384 characters: "
        "'{\"amount\": 129.9}'",
    )
    payload_schema: JsonObject | None = Field(
        default=None,
        description="A JSON Schema for people, as text, up to 16,384 characters. No event is refused by it.",
    )
    deprecated: StrictBool = Field(default=False, description="true: new receivers should not use the type.")
