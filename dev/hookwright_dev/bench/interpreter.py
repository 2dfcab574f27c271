"""The Python that runs the benchmark: a profile-guided build, as in the image; Debian's if this one is not.

"By profile" is profile-guided optimisation: the interpreter is compiled a second time with a profile of the first
build.
"""

import fcntl
import json
import os
import platform
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from hookwright_dev import packages
from hookwright_dev.bench.errors import BenchError
from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.progress import progress

FOLDER: Final = ROOT / ".venv-bench"
"""The virtual environment of Debian's Python, kept between runs."""

_DEBIANS: Final = Path("/usr/bin/python3")
_PACKAGES: Final = ("python3", "python3-venv")
_SOURCES: Final = (ROOT / "requirements.lock", ROOT / "pyproject.toml")
_CHANGED: Final = "HOOKWRIGHT_BENCH_CHANGED_PYTHON"
# Debian builds by profile on these architectures.
_BY_PROFILE: Final = frozenset({"x86_64", "aarch64"})
_ASK: Final = """
import importlib.util, json, platform, sys, sysconfig
print(json.dumps({
    "version": list(sys.version_info[:3]),
    "arguments": sysconfig.get_config_var("CONFIG_ARGS"),
    "flag": sysconfig.get_config_var("PGO_PROF_USE_FLAG"),
    "machine": platform.machine(),
    "venv": all(map(importlib.util.find_spec, ("venv", "ensurepip"))),
}))
"""


def built_by_profile(arguments: str | None, flag: str | None, machine: str) -> bool:
    """Pure: return whether a Python was built by profile, judged by its build variables.

    Args:
        arguments: of ``configure`` (CONFIG_ARGS); most builders name the option there.
        flag: PGO_PROF_USE_FLAG, which every ``configure`` sets. Debian uses ``make profile-opt`` instead. Its
            debian/rules then remove the flag from the installed file: a flag that exists and is empty means Debian.
        machine: as ``uname -m`` names it.
    """
    return "--enable-optimizations" in (arguments or "") or (flag == "" and machine in _BY_PROFILE)


def own_by_profile() -> bool:
    """Return whether the Python that runs this was built by profile."""
    arguments, flag = sysconfig.get_config_vars("CONFIG_ARGS", "PGO_PROF_USE_FLAG")
    return built_by_profile(arguments, flag, platform.machine())


@dataclass(frozen=True, slots=True)
class Python:
    """Facts of an interpreter.

    Attributes:
        by_profile: whether it was built by profile.
        venv: whether it can create virtual environments.
    """

    version: tuple[int, ...]
    by_profile: bool
    venv: bool

    @classmethod
    def at(cls, path: Path) -> Self | None:
        """Ask an interpreter; return None if none answers."""
        try:
            done = subprocess.run([path, "-I", "-c", _ASK], capture_output=True, text=True, timeout=30, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
        return cls.parse(done.stdout)

    @classmethod
    def parse(cls, said: str) -> Self:
        """Pure: parse the answer."""
        printed = json.loads(said)
        by_profile = built_by_profile(printed["arguments"], printed["flag"], printed["machine"])
        return cls(tuple(printed["version"]), by_profile, printed["venv"])

    def fault(self) -> str:
        """Pure: why not to measure on it, if packages do not help; empty if there is no reason."""
        if not (3, 11) <= self.version < (3, 14):
            return f"it is {self}, not 3.11 to 3.13"
        return "" if self.by_profile else "it was not built by profile either"

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


def change() -> None:
    """Restart this program on a Python built by profile, if this one is not and Debian's is available.

    The function returns only if the program continues on this Python. Then standard error has the reason why Debian's
    Python is not used.

    Raises:
        BenchError: the project's requirements could not be installed.
    """
    # At most one restart, whatever the new interpreter is; and no child inherits the mark of the first.
    changed = os.environ.pop(_CHANGED, "")
    if changed or own_by_profile():
        return
    try:
        debians = _debians()
    except packages.PackageError as error:
        print(f"not on Debian's Python, which is built by profile: {error}", file=sys.stderr)
        return
    if fault := debians.fault():
        print(f"not on {_DEBIANS}: {fault}", file=sys.stderr)
        return
    program = environment(FOLDER, debians)
    sys.stdout.flush()
    os.environ[_CHANGED] = "1"
    os.execv(program, [str(program), *sys.orig_argv[1:]])  # noqa: S606  # this program itself


def _debians() -> Python:
    """Return Debian's Python after installing its missing packages."""
    found = Python.at(_DEBIANS)
    if found is None or not (found.venv or found.fault()):
        packages.install(*_PACKAGES)
        found = Python.at(_DEBIANS)
    if found is None or not (found.venv or found.fault()):
        raise packages.PackageError(
            f"{_DEBIANS} cannot create virtual environments, although its packages are installed"
        )
    return found


def environment(folder: Path, python: Python) -> Path:
    """Return the interpreter of the virtual environment in ``folder``; create it if it is missing or stale.

    Raises:
        BenchError: the project's requirements could not be installed.
    """
    program, ready = folder / "bin" / "python", folder / "ready"
    folder.mkdir(exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_current(ready, str(python), _SOURCES):
            with progress(f"installing into {folder.name} (once)"):
                _make(folder, program)
            ready.write_text(str(python))
    finally:
        os.close(lock)
    return program


def is_current(ready: Path, version: str, sources: Sequence[Path]) -> bool:
    """Return whether an environment was made by this version of Python, after all of its sources were written."""
    if not ready.exists() or ready.read_text() != version:
        return False
    return all(source.stat().st_mtime <= ready.stat().st_mtime for source in sources)


def _make(folder: Path, program: Path) -> None:
    """Create the environment as the Makefile creates ``.venv``."""
    install = (program, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    _run(_DEBIANS, "-m", "venv", "--clear", folder)
    _run(*install, "--require-hashes", "-r", ROOT / "requirements.lock")
    _run(*install, "--no-deps", "--no-build-isolation", "-e", ROOT)


def _run(*argv: str | Path) -> None:
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-500:]
        raise BenchError(f"{FOLDER.name}: {' '.join(map(str, argv[:4]))} failed; it said: {said}")
