"""Installation of missing programs from Debian packages, as root, by one process at a time."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hookwright_dev.cache import exclusive, run_tool
from hookwright_dev.errors import ToolError
from hookwright_dev.progress import progress

_fresh_indexes: Final[set[str]] = set()
"""The programs apt-get whose lists this process has updated."""


def acquire_program(name: str, package: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return a program from the PATH; install its package first if it is missing.

    Raises:
        ToolError: it is missing and cannot be installed; the message names the package.
    """
    path = environ.get("PATH")
    if shutil.which(name, path=path) is None:
        install(package, environ=environ)
    program = shutil.which(name, path=path)
    if program is None:
        raise ToolError(f"{name}: the package {package} was installed, but no {name} is on the PATH")
    return Path(program)


def install(package: str, *, environ: Mapping[str, str] = os.environ) -> None:
    """Install a package with apt-get.

    Raises:
        ToolError: there is no apt-get, or this is not root; then the message has the command to install by hand. Or
            apt-get failed.
    """
    apt = shutil.which("apt-get", path=environ.get("PATH"))
    if apt is None or os.geteuid() != 0:
        reason = "there is no apt-get on this machine" if apt is None else "only root may install packages"
        raise ToolError(f"{package} is needed, and {reason}; install it yourself (Debian: apt-get install {package})")
    quiet = {**environ, "DEBIAN_FRONTEND": "noninteractive"}
    # Configuration files that were changed stay unchanged; apt-get waits for another installation to end.
    options = ("-o", "Dpkg::Options::=--force-confold", "-o", "DPkg::Lock::Timeout=300")
    # apt-get refuses to run twice at once.
    lock = Path(tempfile.gettempdir()) / "hookwright-apt.lock"
    with exclusive(lock, "packages"), progress(f"installing {package} (once)"):
        update = () if apt in _fresh_indexes else (("update", "-q"),)
        for command in (*update, ("install", "-q", "-y", "--no-install-recommends", *options, package)):
            run_tool(f"`apt-get install {package}`", [apt, *command], quiet)
        _fresh_indexes.add(apt)
