"""Sources of helm and promtool, and the errors if they are not available."""

from pathlib import Path

import pytest

from hookwright_dev.errors import ToolError
from hookwright_dev.tools import HELM, GoModule, acquire_files, acquire_promtool, acquire_tool


def _program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


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
