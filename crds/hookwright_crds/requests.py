"""Pure: the id of one request, the same in the headers and logs of everybody that it passes."""

import re
from collections.abc import Callable
from typing import Final

REQUEST_ID: Final = "X-Request-Id"
"""The header: a caller may give it, the API hands it on to the operator, and every answer has it."""

_SANE: Final = re.compile(r"[A-Za-z0-9._~:/+=@-]{1,128}")


def request_id(given: str | None, draw: Callable[[], str]) -> str:
    """Return a request's id: the caller's own where it is fit for headers and logs, else a new one.

    Args:
        given: as the caller sent it: 1 to 128 letters, digits and ``._~:/+=@-``, or it is not taken.
        draw: makes a new one.
    """
    return given if given and _SANE.fullmatch(given) else draw()
