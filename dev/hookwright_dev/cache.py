"""The user's cache of programs and packages, and Go, which builds some of them."""

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hookwright_dev.errors import ToolError
from hookwright_dev.processes import ChildProcess
from hookwright_dev.progress import progress

GO_VERSION: Final = "1.26"
_TOOL_SECONDS: Final = 600


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the cache."""
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hookwright"


def tools_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the cache with the tools, each in a folder named after its version."""
    return cache_folder(environ) / "tools"


@contextmanager
def exclusive(path: Path, subject: str) -> Iterator[None]:
    """Exclude other processes inside the context.

    Args:
        path: the file to lock; it is created.
        subject: the thing that the processes prepare; the progress line of a waiting one names it.
    """
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress(f"waiting for another process that prepares {subject}"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def acquire_path(path: Path, subject: str, make: Callable[[Path], None]) -> Path:
    """Return a file or folder of the cache, which is complete or does not exist; one process at a time makes it.

    Args:
        path: its place, named after the version of its contents.
        subject: its name for people.
        make: makes it at another path.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(path.with_name(f"{path.name}.lock"), subject):
            if not path.exists():  # another process may have made it while this one waited
                draft = path.with_name(f"{path.name}.part")
                _remove(draft)
                try:
                    make(draft)
                    draft.rename(path)
                finally:
                    _remove(draft)
    return path


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def run_tool(
    subject: str, argv: Sequence[str | Path], environ: Mapping[str, str], *, folder: Path | None = None
) -> str:
    """Return the standard output of a program that fetches or installs something.

    Args:
        subject: its name for people.
        argv: its command line.
        environ: its environment.
        folder: where it runs, by default in the folder of temporary files.

    Raises:
        ToolError: it failed; the message has the end of its output.
    """
    process = subprocess.run(
        argv,
        cwd=folder or tempfile.gettempdir(),
        env=dict(environ),
        capture_output=True,
        text=True,
        timeout=_TOOL_SECONDS,
        check=False,
    )
    if process.returncode != 0:
        raise ToolError(f"{subject} failed:\n{(process.stderr or process.stdout).strip()[-1000:]}")
    return process.stdout


def find_go(subject: str, environ: Mapping[str, str]) -> str:
    """Return Go's executable; raises `ToolError` if it is missing."""
    go = shutil.which("go", path=environ.get("PATH"))
    if go is None:
        raise ToolError(
            f"{subject}: there is no `go` on the PATH; install Go {GO_VERSION} or later (https://go.dev/dl)"
        )
    return go


def build_with_go(subject: str, source: Path, target: Path, *options: str, environ: Mapping[str, str]) -> None:
    """Build a Go program, with the number of compiled packages shown; raises `ToolError` if that fails."""
    argv: list[str | Path] = [find_go(subject, environ), "build", "-C", source, "-v", "-trimpath", "-buildvcs=false"]
    with (
        tempfile.TemporaryDirectory(prefix="hookwright-build-") as folder,
        progress(f"building {subject}, some minutes the first time") as show,
        ChildProcess.start(
            "go build",
            [*argv, "-o", target, *options],
            log=Path(folder) / "build.log",
            env={**environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": ""},
        ) as compiler,
    ):
        while compiler.running:
            show(f"{len(compiler.log.read_bytes().splitlines())} packages")
            time.sleep(0.2)
        if compiler.returncode != 0:
            raise ToolError(f"{subject}: go build failed:\n{compiler.tail(10)}")
