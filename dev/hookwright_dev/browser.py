"""Chromium, for tests of the console and for its screenshots."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright

from hookwright_dev import packages

PACKAGE: Final = "chromium"


def install_chromium() -> Path:
    """Return Chromium; install Debian's if it is missing.

    Raises:
        PackageError: it is missing and cannot be installed.
    """
    if (path := shutil.which(PACKAGE)) is None:
        packages.install(PACKAGE)
        path = shutil.which(PACKAGE)
    assert path, f"{PACKAGE} was installed, but it is not on PATH"
    return Path(path)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a browser inside the context. Inside it, this thread cannot use asyncio."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=install_chromium(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
