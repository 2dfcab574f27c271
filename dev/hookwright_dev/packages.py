"""Installation of missing programs from Debian packages, as root, by one process at a time."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hookwright_dev.errors import DevError
from hookwright_dev.progress import progress

_SECONDS: Final = 600
_fresh_indexes: Final[set[str]] = set()
"""The programs apt-get whose lists this process has updated."""


class PackageError(DevError):
    """A package that could not be installed; the message has the reason, and the command to install it by hand."""


def install(*packages: str, environ: Mapping[str, str] = os.environ) -> None:
    """Install packages with apt-get.

    Raises:
        PackageError: there is no apt-get, this is not root, or it failed.
    """
    apt = shutil.which("apt-get", path=environ.get("PATH"))
    by_hand = f"install it yourself (Debian: apt-get install {' '.join(packages)})"
    if apt is None or os.geteuid() != 0:
        reason = "there is no apt-get on this machine" if apt is None else "only root may install packages"
        raise PackageError(f"{reason}; {by_hand}")
    quiet = {**environ, "DEBIAN_FRONTEND": "noninteractive"}
    # Configuration files that were changed stay unchanged; apt-get waits for another installation to end.
    options = ("-o", "Dpkg::Options::=--force-confold", "-o", "DPkg::Lock::Timeout=300")
    with progress(f"installing {', '.join(packages)} (once)"), _alone():
        update = () if apt in _fresh_indexes else (("update", "-q"),)
        for command in (*update, ("install", "-q", "-y", "--no-install-recommends", *options, *packages)):
            process = subprocess.run(
                [apt, *command], env=quiet, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
            if process.returncode != 0:
                message = process.stderr.strip()[-500:]
                raise PackageError(f"apt-get {command[0]} failed, {by_hand}; it said: {message}")
        _fresh_indexes.add(apt)


@contextmanager
def _alone() -> Iterator[None]:
    """Exclude other tests that run at the same time, because apt-get refuses to run twice at once."""
    with (Path(tempfile.gettempdir()) / "hookwright-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
