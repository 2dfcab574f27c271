"""`make bench` runs on a Python with profile-guided optimization, as in the image, or reports why it does not."""

import json
import os
import sys
from pathlib import Path

import pytest

from hookwright_dev import packages
from hookwright_dev.bench import interpreter
from hookwright_dev.bench.errors import BenchError
from hookwright_dev.bench.interpreter import Python, built_by_profile, is_current
from hookwright_dev.bench.results import machine

_USE = "-fprofile-use -fprofile-correction"
_GOOD = Python((3, 11, 2), by_profile=True, venv=True)


class _Replaced(Exception):  # noqa: N818  # not an error: os.execv does not return
    """Carries the command that would replace the process."""


@pytest.mark.parametrize(
    ("arguments", "flag", "machine", "by_profile"),
    [
        ("'--enable-shared' '--enable-optimizations'", _USE, "x86_64", True),
        ("'--enable-shared'", _USE, "x86_64", False),
        ("'--prefix=/usr'", "", "aarch64", True),
        ("'--prefix=/usr'", "", "riscv64", False),
        (None, None, "x86_64", False),
    ],
    ids=["the image's", "pyenv's", "Debian's", "Debian's where it is not", "says nothing"],
)
def test_a_build_by_profile_is_told_by_what_it_left_behind(
    arguments: str | None, flag: str | None, machine: str, *, by_profile: bool
) -> None:
    """Debian passes no option to configure, and removes the flag afterwards."""
    assert built_by_profile(arguments, flag, machine) is by_profile


def test_an_interpreter_is_asked_what_it_is() -> None:
    """The interpreter's version and its build decide."""
    own = Python.at(Path(sys.executable))
    assert own is not None
    assert own.version == tuple(sys.version_info[:3])
    assert own.by_profile is interpreter.own_by_profile()
    assert Python.at(Path("/nowhere/python3")) is None
    assert Python.at(Path("/bin/false")) is None
    said = {"version": [3, 13, 5], "arguments": "", "flag": "", "machine": "x86_64", "venv": False}
    assert Python.parse(json.dumps(said)) == Python((3, 13, 5), by_profile=True, venv=False)


@pytest.mark.parametrize(
    ("python", "fault"),
    [
        (_GOOD, ""),
        (Python((3, 13, 9), by_profile=True, venv=False), ""),
        (Python((3, 10, 6), by_profile=True, venv=True), "it is 3.10.6, not 3.11 to 3.13"),
        (Python((3, 14, 0), by_profile=True, venv=True), "it is 3.14.0, not 3.11 to 3.13"),
        (Python((3, 12, 1), by_profile=False, venv=True), "it was not built by profile either"),
    ],
)
def test_a_python_that_will_not_do_has_a_fault(python: Python, fault: str) -> None:
    """A missing venv module is no fault, because packages install it."""
    assert python.fault() == fault


def test_an_environment_is_kept_until_its_sources_or_its_python_are_newer(tmp_path: Path) -> None:
    """The rule is the same as for .venv in the Makefile."""
    ready, source = tmp_path / "ready", tmp_path / "requirements.lock"
    source.touch()
    assert not is_current(ready, "3.11.2", [source])
    ready.write_text("3.11.2")
    os.utime(source, (1000, 1000))
    os.utime(ready, (2000, 2000))
    assert is_current(ready, "3.11.2", [source])
    assert not is_current(ready, "3.13.5", [source])
    os.utime(source, (3000, 3000))
    assert not is_current(ready, "3.11.2", [source])


@pytest.fixture
def _not_by_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Prepare a program on a Python without profile-guided optimization, and a Debian Python that has it."""
    monkeypatch.delenv("HOOKWRIGHT_BENCH_CHANGED_PYTHON", raising=False)
    monkeypatch.setattr(interpreter, "FOLDER", tmp_path / "venv")
    monkeypatch.setattr(interpreter, "own_by_profile", lambda: False)
    monkeypatch.setattr(interpreter, "_make", lambda *_: None)
    monkeypatch.setattr(Python, "at", lambda _: _GOOD)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "hookwright_dev.bench", "latency"])

    def replace(path: Path, argv: list[str]) -> None:
        raise _Replaced(path, argv)

    monkeypatch.setattr(os, "execv", replace)


@pytest.mark.usefixtures("_not_by_profile")
def test_the_program_starts_anew_once_with_the_same_arguments(tmp_path: Path) -> None:
    """The second time the program continues on any Python, and its children do not inherit the mark."""
    program = tmp_path / "venv" / "bin" / "python"
    with pytest.raises(_Replaced) as replaced:
        interpreter.change()
    assert replaced.value.args == (program, [str(program), "-m", "hookwright_dev.bench", "latency"])
    interpreter.change()
    assert "HOOKWRIGHT_BENCH_CHANGED_PYTHON" not in os.environ


@pytest.mark.usefixtures("_not_by_profile")
def test_without_a_python_that_will_do_the_program_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason is on standard error."""
    monkeypatch.setattr(Python, "at", lambda _: Python((3, 10, 6), by_profile=True, venv=False))
    interpreter.change()
    assert "it is 3.10.6, not 3.11 to 3.13" in capsys.readouterr().err

    def refuse(*names: str) -> None:
        raise packages.PackageError(f"only root may install {' '.join(names)}")

    monkeypatch.setattr(packages, "install", refuse)
    for missing in (None, Python((3, 11, 2), by_profile=True, venv=False)):
        monkeypatch.setattr(Python, "at", lambda _, missing=missing: missing)
        interpreter.change()
        assert "only root may install python3 python3-venv" in capsys.readouterr().err


def test_what_pip_says_last_is_in_the_error() -> None:
    """The error contains no other output of pip."""
    with pytest.raises(BenchError, match=r"failed; it said: .*no such thing"):
        interpreter._run(sys.executable, "-c", "raise SystemExit('no such thing')")


def test_the_machine_tells_how_its_python_was_built() -> None:
    """Figures of different builds must not be compared."""
    assert machine()["Python"].endswith("built by profile")
    assert ("not built" in machine()["Python"]) is not interpreter.own_by_profile()
