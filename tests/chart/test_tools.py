"""Sources of helm and promtool, and the errors if they are not available."""

import os
from pathlib import Path

import pytest

from hookwright_dev.tools import HELM, GoModule, ToolError, acquire_files, acquire_promtool, acquire_tool, tools_folder


def _program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def _fake_go(folder: Path, build: str) -> dict[str, str]:
    """Create a `go` whose downloads succeed and whose build runs a command, and return the environment."""
    download = f'[ "$1" = mod ] && echo \'{{"Dir": "{folder}"}}\' && exit'
    _program(folder / "bin" / "go", f"{download}\n{build}")
    return {"XDG_CACHE_HOME": str(folder / "cache"), "PATH": f"{folder}/bin:{os.environ['PATH']}"}


def test_a_helm_of_ones_own_is_taken(tmp_path: Path) -> None:
    """HOOKWRIGHT_HELM names it; the error for a path that is no executable names the variable."""
    helm = _program(tmp_path / "helm", "true")
    assert acquire_tool(HELM, {"HOOKWRIGHT_HELM": str(helm)}) == helm
    with pytest.raises(ToolError, match="HOOKWRIGHT_HELM"):
        acquire_tool(HELM, {"HOOKWRIGHT_HELM": str(tmp_path / "none")})


def test_a_tool_is_built_once(tmp_path: Path) -> None:
    """The first call builds the pinned version into the cache; the second finds it and needs no Go."""
    environ = _fake_go(tmp_path, f'echo "$@" >{tmp_path}/asked; echo built >"$5"; chmod 755 "$5"')
    built = acquire_tool(HELM, environ)
    assert built == tools_folder(environ) / f"helm-{HELM.version}" / "helm"
    asked = (tmp_path / "asked").read_text().split()
    assert asked[:4] == ["build", "-C", str(tmp_path), "-o"]
    assert asked[-1] == HELM.package
    assert acquire_tool(HELM, {**environ, "PATH": "/nonexistent"}) == built


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """The error ends with Go's output, and the cache contains no partial tool."""
    environ = _fake_go(tmp_path, 'echo half >"$5"; echo "cannot compile"; exit 1')
    with pytest.raises(ToolError, match="cannot compile"):
        acquire_tool(HELM, environ)
    assert not [path for path in tools_folder(environ).iterdir() if path.is_dir()]


def test_without_go_the_error_says_what_to_install(tmp_path: Path) -> None:
    """The error is the same for tools and modules."""
    environ = {"XDG_CACHE_HOME": str(tmp_path), "PATH": str(tmp_path)}
    with pytest.raises(ToolError, match="install Go"):
        acquire_tool(HELM, environ)
    with pytest.raises(ToolError, match="install Go"):
        acquire_files(GoModule("example.com/module", "v1.0.0", ()), environ)


def test_without_root_the_error_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only root may install packages; other users get an error that names the package."""
    _program(tmp_path / "apt-get", "exit 1")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(ToolError, match="apt-get install prometheus"):
        acquire_promtool({"PATH": str(tmp_path)})
