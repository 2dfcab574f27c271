"""Pure: the bases of request and answer bodies."""

from typing import ClassVar, Final

from pydantic import BaseModel, ConfigDict

ID_EXAMPLE: Final = "wh-3k9x0q2m7a5d"
TIME_EXAMPLE: Final = "2026-01-31T12:00:00Z"


class Request(BaseModel):
    """Base of request bodies: unknown fields are refused, and no answer repeats the request.

    Attributes:
        most_values: JSON values of the largest valid body, and some more; to validate one takes microseconds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
    most_values: ClassVar[int] = 10


class Answer(BaseModel):
    """Base of answers. A later version may add fields, so clients ignore unknown ones."""


def printable(text: str) -> str:
    """Return a text for people unchanged, or raise ValueError."""
    if not text.strip() or not text.isprintable():
        raise ValueError("must have only printable characters, and not only white space")
    return text


def readable(text: str | None) -> str | None:
    """Return a text of several lines unchanged, or raise ValueError for other control characters."""
    if text and not text.replace("\n", "").replace("\t", "").isprintable():
        raise ValueError("must have only printable characters, tabs and line feeds")
    return text
