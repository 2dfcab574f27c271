"""Pure: the bases of request and answer bodies."""

from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hookwright_crds.timestamps import EXPECTED_TIME, time_of

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
    """Base of answers. A later version may add fields, so clients ignore unknown ones; no error repeats an answer."""

    model_config = ConfigDict(hide_input_in_errors=True)

    def json_bytes(self) -> bytes:
        """Return the answer as JSON, with the fields that were set."""
        return self.model_dump_json(by_alias=True, exclude_unset=True).encode()


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


def _checked_time(text: str) -> str:
    if time_of(text) is None:
        raise ValueError(f"is wrong; {EXPECTED_TIME}")
    return text


Moment = Annotated[str, Field(max_length=64), AfterValidator(_checked_time)]
"""A time that `time_of` reads."""
BEFORE_SINCE: Final = "is before since"
"""The fault of an `until`, for the whole document, because it concerns two fields."""


def check_order(since: str | None, until: str | None) -> None:
    """Return if a range of times has an order, raise ValueError otherwise."""
    if since is not None and until is not None and (time_of(until) or 0) < (time_of(since) or 0):
        raise ValueError(BEFORE_SINCE)
