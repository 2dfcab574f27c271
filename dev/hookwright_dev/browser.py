"""Chromium, for tests of the console and for its screenshots."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from hookwright_dev.packages import acquire_program


def install_chromium() -> Path:
    """Return Chromium; install Debian's if it is missing."""
    return acquire_program("chromium", "chromium")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a browser inside the context. Inside it, this thread cannot use asyncio."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=install_chromium(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
