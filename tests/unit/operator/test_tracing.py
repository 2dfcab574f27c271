"""The cost of disabled traces, and the error if their libraries are missing."""

import sys

import pytest

from hookwright_crds.requests import request_id
from hookwright_operator.tracing import Traces, _server
from hookwright_runtime.errors import SettingsError


def test_traces_without_their_libraries_are_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The image has the libraries; a bare installation may not."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(SettingsError, match=r"HOOKWRIGHT_TRACES needs opentelemetry.*; install hookwright\[traces\]"):
        Traces.start("http://127.0.0.1:4318")


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("https://hooks.example.com/a?b", ("https", "hooks.example.com", 443)),
        ("http://[::1]:8080/", ("http", "::1", 8080)),
        ("http://example.com", ("http", "example.com", 80)),
        ("http://[::1/", ("", "", 0)),
        ("http://example.com:99999/", ("", "", 0)),
    ],
)
def test_a_span_names_the_server_of_a_url(url: str, server: tuple[str, str, int]) -> None:
    """A URL that cannot be sent to fails its attempt, and not its span."""
    assert _server(url) == server


@pytest.mark.parametrize("given", [None, "", "a b", "a\n", "x" * 129])
def test_a_request_id_that_is_not_sane_is_drawn_anew(given: str | None) -> None:
    """The new id contains nothing of the old one."""
    assert request_id(given, lambda: "drawn") == "drawn"
