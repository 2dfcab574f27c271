"""Pure: the id of one request, which is the same in the headers and logs of all processes."""

import re
from collections.abc import Callable
from typing import Final

REQUEST_ID: Final = "X-Request-Id"
"""The header. A caller may set it, the API passes it to the operator, and every response has it."""

_SANE: Final = re.compile(r"[A-Za-z0-9._~:/+=@-]{1,128}")


def request_id(caller_id: str | None, draw: Callable[[], str]) -> str:
    """Return the caller's request id if it is valid for headers and logs, else a new one.

    Args:
        caller_id: the caller's id; it is valid if it has 1 to 128 letters, digits and ``._~:/+=@-``.
        draw: generates a new id.
    """
    return caller_id if caller_id and _SANE.fullmatch(caller_id) else draw()
