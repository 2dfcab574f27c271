"""Programs and files that tests need, fetched or built before the first test."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext

import pytest
from _pytest.capture import CaptureManager


def acquire_needed(session: pytest.Session, needed: Mapping[str, Callable[[], object]]) -> None:
    """Call the function of each fixture that a collected test uses; a progress display reaches the terminal."""
    if session.config.option.collectonly:
        return
    asked = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    capture = session.config.pluginmanager.getplugin("capturemanager")
    for name in sorted(asked & needed.keys()):
        with capture.global_and_fixture_disabled() if isinstance(capture, CaptureManager) else nullcontext():
            needed[name]()
