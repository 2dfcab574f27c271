"""The parts of a request that are forwarded to the operator: its id and its trace."""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final

from starlette.datastructures import Headers
from structlog.contextvars import bind_contextvars

from hookwright_crds.requests import REQUEST_ID

_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
"""W3C Trace Context, 3.2, in the form of version 00."""
_LONGEST_STATE: Final = 512

_passed_on: ContextVar[Mapping[str, str]] = ContextVar("passed_on")


def begin(request_id: str, headers: Headers) -> None:
    """Add a request's id to every log line of it, and record the headers to forward."""
    bind_contextvars(request_id=request_id)
    passed_on = {REQUEST_ID: request_id}
    parent, state = headers.get("traceparent", ""), headers.get("tracestate", "")
    if _TRACEPARENT.fullmatch(parent):
        passed_on["traceparent"] = parent
        if state.isascii() and 0 < len(state) <= _LONGEST_STATE:
            passed_on["tracestate"] = state
    _passed_on.set(passed_on)


def headers_passed_on() -> Mapping[str, str]:
    """Return the headers of the current request for the operator; none outside of requests."""
    return _passed_on.get({})
