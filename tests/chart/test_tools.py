"""Where helm and promtool come from, and what is said when they cannot be had."""

import os
from pathlib import Path

import pytest

from hookwright_dev.tools import HELM, GoModule, ToolError, acquire_files, acquire_promtool, acquire_tool, tools_folder


def _program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_helm_of_ones_own_is_taken(tmp_path: Path) -> None:
    """HOOKWRIGHT_HELM names it; a path that is no executable is refused by the variable's name."""
    helm = _program(tmp_path / "helm", "true")
    assert acquire_tool(HELM, {"HOOKWRIGHT_HELM": str(helm)}) == helm
    with pytest.raises(ToolError, match="HOOKWRIGHT_HELM"):
        acquire_tool(HELM, {"HOOKWRIGHT_HELM": str(tmp_path / "none")})


def test_a_tool_is_built_once(tmp_path: Path) -> None:
    """The first call builds at the pinned version, into the cache; the second finds it and needs no Go."""
    _program(
        tmp_path / "bin" / "go", f'echo "$@" >{tmp_path}/asked; echo built >"$GOBIN/helm"; chmod 755 "$GOBIN/helm"'
    )
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    built = acquire_tool(HELM, environ)
    assert built == tools_folder(environ) / f"helm-{HELM.version}" / "helm"
    assert (tmp_path / "asked").read_text().strip().endswith(f"{HELM.package}@{HELM.version}")
    assert acquire_tool(HELM, {**environ, "PATH": "/nonexistent"}) == built


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """The error ends with what Go said, and the cache holds no half of a tool."""
    _program(tmp_path / "bin" / "go", 'echo half >"$GOBIN/helm"; echo "no such module"; exit 1')
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    with pytest.raises(ToolError, match="no such module"):
        acquire_tool(HELM, environ)
    assert not [path for path in tools_folder(environ).iterdir() if path.is_dir()]


def test_without_go_the_error_says_what_to_install(tmp_path: Path) -> None:
    """Tools and modules alike."""
    environ = {"XDG_CACHE_HOME": str(tmp_path), "PATH": str(tmp_path)}
    with pytest.raises(ToolError, match="install Go"):
        acquire_tool(HELM, environ)
    with pytest.raises(ToolError, match="install Go"):
        acquire_files(GoModule("example.com/module", "v1.0.0", ()), environ)


def test_without_root_the_error_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody but root may install packages; who is not, is told which one is needed."""
    _program(tmp_path / "apt-get", "exit 1")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(ToolError, match="apt-get install prometheus"):
        acquire_promtool({"PATH": str(tmp_path)})
