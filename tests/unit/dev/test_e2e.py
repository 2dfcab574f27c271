"""Start of a cluster for the end-to-end suite: the order of commands, and the cleanup after a failure.

The suite itself shows that the node works. Docker and kind are not available everywhere, so programs in their place
record their calls.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookwright_dev.e2e import (
    DATABASE_VARIABLE,
    IMAGE,
    IMAGE_VARIABLE,
    KUBECONFIG_VARIABLE,
    E2eError,
    kind_cluster,
    main,
    node_cluster,
)

_KIND = ["create cluster", "load image-archive", "delete cluster"]


def _programs(folder: Path, **texts: str) -> list[Path]:
    """Write programs that add their name and arguments to ``folder/calls`` and then run their text."""
    paths = []
    for name, text in texts.items():
        path = folder / name.replace("_", "-")
        path.write_text(f'#!/bin/sh\necho "{path.name} $*" >>{folder}/calls\n{text}\n')
        path.chmod(0o755)
        paths.append(path)
    return paths


def _calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    """Restore the signal handlers, because a command handles SIGTERM itself."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for temporary files, in which no node is up."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_without_commands_is_refused_with_what_would_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the missing commands and every other way; nothing is skipped."""
    assert main(["node", "--commands", str(tmp_path / "none")]) == 2
    output = capsys.readouterr().err
    for word in ("up, base-image, image, down", "NODE=", KUBECONFIG_VARIABLE, "make e2e-kind"):
        assert word in output


def test_a_node_that_is_up_already_is_left_alone(temporary: Path) -> None:
    """The node may be in use: the message says how to remove it, and no command runs."""
    _programs(temporary, up="", base_image="", image="", down="")
    (temporary / "hookwright-node").mkdir()
    (temporary / "hookwright-node" / "pids").touch()
    with pytest.raises(E2eError, match="take it down"), node_cluster(temporary):
        pass
    assert not (temporary / "calls").exists()


def test_a_node_is_taken_down_when_the_image_cannot_be_built(temporary: Path) -> None:
    """The error says which command failed, and the last call is `down`."""
    node = temporary / "hookwright-node"
    _programs(temporary, up=f"echo {node}/kubeconfig", base_image="echo base:1", image="exit 3", down="")
    with pytest.raises(E2eError, match="status 3"), node_cluster(temporary):
        pass
    calls = _calls(temporary)
    assert calls[:2] == [f"up {node}", "base-image "]
    assert calls[2].startswith(f"image {IMAGE} ")
    assert calls[2].endswith("--build-arg PYTHON_IMAGE=base:1")
    assert calls[3:] == [f"down {node}"]


def _docker_and_kind(folder: Path, monkeypatch: pytest.MonkeyPatch, *, kind: str = "") -> None:
    inspected = 'case "$1" in inspect) echo 172.18.0.9;; esac'
    _, executable = _programs(folder, docker=inspected, kind=kind)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOOKWRIGHT_KIND", str(executable))


def test_kind_builds_creates_loads_and_deletes(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The image is built and loaded into a cluster with a database, and all of them are deleted at the end."""
    _docker_and_kind(temporary, monkeypatch)
    with kind_cluster() as environment:
        assert environment[IMAGE_VARIABLE] == IMAGE
        assert environment[DATABASE_VARIABLE].endswith("@172.18.0.9:5432/postgres")
        assert "docker rm" not in str(_calls(temporary))
    calls = _calls(temporary)
    assert [" ".join(call.split()[1:3]) for call in calls if call.startswith("kind ")] == _KIND
    kubeconfig = environment[KUBECONFIG_VARIABLE]
    assert all(
        f"--kubeconfig {kubeconfig}" in call for call in calls if call.startswith(("kind create", "kind delete"))
    )
    docker = [call.split()[1] for call in calls if call.startswith("docker ")]
    assert docker == ["info", "build", "save", "run", "inspect", "rm"]
