"""The parts of a request that are forwarded to the operator."""

from contextvars import copy_context

import pytest
from starlette.datastructures import Headers

from hookwright_api.operator_client import headers_passed_on, pass_on

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def _passed_on(headers: dict[str, str]) -> dict[str, str]:
    def serve() -> dict[str, str]:
        pass_on("request-1", Headers(headers))
        return dict(headers_passed_on())

    return copy_context().run(serve)


def test_a_request_s_id_and_its_trace_go_on() -> None:
    """The operator's log lines and spans get the id and the trace."""
    headers = {"traceparent": PARENT, "tracestate": "vendor=1", "Authorization": "Bearer x", "baggage": "a=b"}
    assert _passed_on(headers) == {"X-Request-Id": "request-1", "traceparent": PARENT, "tracestate": "vendor=1"}


@pytest.mark.parametrize("parent", ["", "nonsense", PARENT.upper(), f"{PARENT}-more", f"{PARENT}\n"])
def test_a_trace_that_is_none_does_not_go_on(parent: str) -> None:
    """The trace state is not forwarded either."""
    assert _passed_on({"traceparent": parent, "tracestate": "vendor=1"}) == {"X-Request-Id": "request-1"}


def test_a_state_that_is_too_long_is_left_out() -> None:
    """W3C Trace Context requires 512 characters."""
    assert "tracestate" not in _passed_on({"traceparent": PARENT, "tracestate": "v=" + "x" * 512})


def test_what_is_no_request_passes_nothing_on() -> None:
    """Work outside of requests forwards no headers."""
    assert copy_context().run(headers_passed_on) == {}
