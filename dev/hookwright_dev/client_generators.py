"""Generators of clients that tests run on docs/openapi.json, besides those of Go and npm.

openapi-python-client needs a version of typer that excludes ours, so it has its own environment, which
``dev/openapi-python-client.lock`` pins with hashes. openapi-generator is a plugin of Maven at a pinned version.
"""

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hookwright_dev.cache import acquire_path, run_tool, tools_folder
from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.packages import acquire_program
from hookwright_dev.progress import progress

PYTHON_LOCK: Final = ROOT / "dev" / "openapi-python-client.lock"


def acquire_python_generator(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder ``bin`` of the environment of openapi-python-client; install it first if the cache lacks it.

    The environment also has the packages that a generated client imports.

    Raises:
        ToolError: uv failed; the message has the end of its output.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(PYTHON_LOCK.read_bytes()).hexdigest()[:12]
    folder = tools_folder(environ) / f"openapi-python-client-{digest}-{version}"
    return acquire_path(folder, "openapi-python-client", lambda draft: _install(draft, environ)) / "bin"


def acquire_maven(environ: Mapping[str, str] = os.environ) -> Path:
    """Return Maven's executable from the PATH; install it with a JDK from Debian's packages first if one is missing.

    Raises:
        ToolError: it is missing and cannot be installed.
    """
    acquire_program("javac", "default-jdk-headless", environ)
    return acquire_program("mvn", "maven", environ)


def _install(folder: Path, environ: Mapping[str, str]) -> None:
    uv = Path(sys.executable).parent / "uv"
    making: list[str | Path] = [uv, "venv", "--quiet", "--relocatable", "--python", sys.executable, folder]
    filling: list[str | Path] = [uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python"]
    with progress("installing openapi-python-client (once)"):
        for command in (making, [*filling, "--require-hashes", "-r", PYTHON_LOCK]):
            run_tool("uv for openapi-python-client", command, environ)
