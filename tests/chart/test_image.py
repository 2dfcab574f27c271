"""The image consists of pinned parts only, and contains only what a running process needs."""

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hookwright_dev.cluster.stack import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()
_PIN = re.compile(r"^(?P<name>[a-z0-9._-]+)==[^\\]+\\\n(?:    --hash=.*\n)+", re.MULTILINE)


def _pins(path: Path) -> dict[str, set[str]]:
    """Return the pins of a lock file, hashes included, by package."""
    text = path.read_text()
    pins: dict[str, set[str]] = {}
    for match in _PIN.finditer(text if text.endswith("\n") else text + "\n"):
        # A marker limits a pin to some environments; the same pin may apply to fewer here.
        first, rest = match[0].split("\n", 1)
        pins.setdefault(match["name"], set()).add(first.split(";")[0].rstrip(" \\") + rest)
    return pins


def _closure(requirements: list[str]) -> set[str]:
    """Return every package that requirements need in this environment, extras included."""
    distributions: set[str] = set()
    names: set[tuple[str, frozenset[str]]] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        need = waiting.pop()
        key = (canonicalize_name(need.name), frozenset(need.extras))
        if key in names:
            continue
        names.add(key)
        distributions.add(key[0])
        for text in requires(need.name) or ():
            further = Requirement(text)
            extras = need.extras or {""}
            if further.marker is None or any(further.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(further)
    return distributions


def _project() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    command_line = tomllib.loads((ROOT / "cli" / "pyproject.toml").read_text())
    dependencies = [*project["project"]["dependencies"], *command_line["project"]["dependencies"]]
    return {"runtime": dependencies, "build": project["build-system"]["requires"]}


@pytest.mark.parametrize("lock", ["runtime", "build"])
def test_the_image_has_what_it_needs_as_tested(lock: str) -> None:
    """Every package that the dependencies need is pinned, with the version and hashes that the tests ran with."""
    pins, tested = _pins(ROOT / f"requirements-{lock}.lock"), _pins(ROOT / "requirements.lock")
    assert _closure(_project()[lock]) <= set(pins), f"run `make lock`: requirements-{lock}.lock lacks packages"
    stale = [name for name, pin in pins.items() if not pin <= tested.get(name, set())]
    assert not stale, f"run `make lock`: requirements-{lock}.lock differs from requirements.lock"


def test_the_image_has_no_development_tool() -> None:
    """Packages that only tests and checks need are not in the runtime's lock."""
    assert not {"pytest", "mypy", "ruff", "uv", "hypothesis", "pip", "hatchling"} & set(
        _pins(ROOT / "requirements-runtime.lock")
    )


def test_the_image_needs_its_base_and_the_package_registry_alone() -> None:
    """Every stage begins at the one base image; nothing is copied from another image or a distribution."""
    stages = re.findall(r"^FROM (\S+)(?: AS (\S+))?", DOCKERFILE, re.MULTILINE)
    assert {image for image, _ in stages} == {"${PYTHON_IMAGE}"}
    assert set(re.findall(r"--from=(\S+)", DOCKERFILE)) <= {name for _, name in stages}
    assert "apt" not in DOCKERFILE


def test_the_base_image_is_pinned_by_digest() -> None:
    """A tag can be moved to another image; the digest cannot."""
    assert re.search(r"^ARG PYTHON_IMAGE=python:[0-9.]+-slim@sha256:[0-9a-f]{64}$", DOCKERFILE, re.MULTILINE)


def test_every_action_of_the_workflows_is_pinned_by_commit() -> None:
    """A tag can be moved to another commit; a comment names the version for people."""
    uses = [
        line.partition("uses: ")[2]
        for path in (ROOT / ".github" / "workflows").glob("*.yaml")
        for line in path.read_text().splitlines()
        if "uses: " in line
    ]
    assert len(uses) > 10
    assert [one for one in uses if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []


def test_every_install_is_pinned_or_offline() -> None:
    """Packages are installed by hash, or from wheels that were built here."""
    installs = re.findall(r'^RUN \[.*"install", "--quiet".*$', DOCKERFILE, re.MULTILINE)
    assert len(installs) == 3
    assert all('"--require-hashes"' in line or '"--no-index"' in line for line in installs)


def test_the_image_runs_as_nobody_and_without_a_shell() -> None:
    """The image's user is a number, as runAsNonRoot needs, and the command is a program with its arguments."""
    assert re.search(r"^USER 65532:65532$", DOCKERFILE, re.MULTILINE)
    assert re.search(r'^CMD \["hookwright-operator"\]$', DOCKERFILE, re.MULTILINE)
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert {"hookwright-operator", "hookwright-api", "hookwright-adopt"} <= set(scripts)


def test_the_image_has_the_command_line() -> None:
    """Its package is copied, built beside that of the server, and installed from the same folder of wheels."""
    assert "!cli\n" in (ROOT / ".dockerignore").read_text()
    assert re.search(r'^COPY cli /src/cli\nRUN \[.*"wheel".*"/src", "/src/cli"\]$', DOCKERFILE, re.MULTILINE)
    assert '"hookwright", "hookwright-cli"]' in DOCKERFILE
