"""Pure: the content mode of a request with events.

Four modes: plain JSON, and CloudEvents 1.0 over HTTP in its binary, structured and batched content mode (CloudEvents
HTTP protocol binding 1.0.2, section 3).
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from hookwright_operator.intake.cloud_events import is_binary
from hookwright_runtime.problems import ProblemError


class Mode(Enum):
    """The content mode of a request."""

    PLAIN = "application/json"
    BINARY = "application/json with ce- headers"
    STRUCTURED = "application/cloudevents+json"
    BATCH = "application/cloudevents-batch+json"


_MEDIA_TYPES: Final = {mode.value: mode for mode in (Mode.PLAIN, Mode.STRUCTURED, Mode.BATCH)}


def mode_of(headers: Mapping[str, str]) -> Mode:
    """Return the content mode of a request.

    Args:
        headers: by lowercase name.

    Raises:
        ProblemError: 415, the media type, charset or content encoding is not supported.
    """
    header = headers.get("content-type", "")
    media, *parameters = (header,) if header in _MEDIA_TYPES else [part.strip() for part in header.lower().split(";")]
    mode = _MEDIA_TYPES.get(media)
    if not header and is_binary(headers):
        # Python's CloudEvents SDK sends no Content-Type for an event without datacontenttype.
        mode = Mode.PLAIN
    if mode is None:
        raise ProblemError(
            415, f"Content-Type is {excerpt_of(header) if header else 'missing'}; send {', '.join(_MEDIA_TYPES)}"
        )
    for parameter in parameters:
        if parameter.startswith("charset=") and parameter[8:].strip('"') not in ("utf-8", "utf8"):
            raise ProblemError(415, f"Content-Type has {excerpt_of(parameter)}; send charset=utf-8 or none")
    if headers.get("content-encoding", "identity") != "identity":
        raise ProblemError(
            415, f"Content-Encoding is {excerpt_of(headers['content-encoding'])}; send the body without an encoding"
        )
    return Mode.BINARY if mode is Mode.PLAIN and is_binary(headers) else mode


def excerpt_of(text: str) -> str:
    """Return the beginning of a text of a request, in quotes."""
    return repr(text[:64])
