"""The release artefacts of the command line: the wheel and the single-file zipapp.

``python -m hookwright_dev.command_artefacts`` writes them to ``dist/``. The versions of the zipapp's dependencies are
those of ``requirements.lock``.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipapp
import zipfile
from pathlib import Path
from typing import Final

from hookwright_dev.cluster.stack import ROOT

SOURCE: Final = ROOT / "cli"
DIST: Final = ROOT / "dist"
ZIPAPP_NAME: Final = "hookwright.pyz"
# Compiled modules cannot be imported from an archive, so the first start unpacks it.
_STARTER: Final = '''\
"""Unpack this archive into the user's cache once, and run the command line from there."""
import os, pathlib, runpy, sys, tempfile, zipfile
archive = pathlib.Path(sys.argv[0]).resolve()
base = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "hookwright"
folder = base / "{digest}"
if not folder.is_dir():
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = tempfile.mkdtemp(dir=base)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(draft)
    try:
        os.rename(draft, folder)
    except OSError:  # another process was first
        pass
sys.path.insert(0, str(folder))
from hookwright_cli.__main__ import main
main()
'''


def build_wheel(folder: Path) -> Path:
    """Build the wheel of the command line into a folder, and return its path."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--no-build-isolation", "--wheel-dir", str(folder), str(SOURCE)], check=True)
    (wheel,) = folder.glob("hookwright_cli-*.whl")
    return wheel


def build_zipapp(wheel: Path, target: Path) -> None:
    """Write the single-file program for this Python and platform."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        limits = Path(folder) / "constraints.txt"
        limits.write_text(_versions(ROOT / "requirements.lock"))
        package = Path(folder) / "packed"
        subprocess.run([*command, "--target", str(package), "--constraint", str(limits), str(wheel)], check=True)
        for spare in ("aio", "client/api"):  # 64 of 90 MB: generated methods, which the command line does not call
            shutil.rmtree(package / "kubernetes" / spare)
        digest = hashlib.sha256(wheel.read_bytes() + sys.version.encode()).hexdigest()[:16]
        (package / "__main__.py").write_text(_STARTER.format(digest=digest))
        target.parent.mkdir(exist_ok=True)
        zipapp.create_archive(package, target, interpreter="/usr/bin/env python3", compressed=True)
        assert zipfile.is_zipfile(target)


def _versions(lock: Path) -> str:
    """Return the pinned versions without their hashes, because pip mixes no file with hashes and a local wheel."""
    lines = (line.split(" \\")[0].strip() for line in lock.read_text().splitlines() if "==" in line)
    return "\n".join(lines) + "\n"


def write(folder: Path) -> None:
    """Write both artefacts into a folder."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("hookwright_cli-*.whl"):
        old.unlink()
    build_zipapp(build_wheel(folder), folder / ZIPAPP_NAME)


def main() -> None:
    """Write both artefacts into ``dist/``."""
    write(DIST)
    for path in sorted(path for path in DIST.iterdir() if path.is_file()):
        print(path.relative_to(ROOT), path.stat().st_size)


if __name__ == "__main__":
    main()
