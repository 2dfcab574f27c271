"""Tools of the tests and the chart: Go programs, built from Go's module proxy; promtool; CRDs of other projects.

A Go tool is built once at a pinned version, verified by Go's checksum database, with the versions of its dependencies
that its module pins. The cache stores it completely or not at all. promtool comes with Debian's ``prometheus`` package,
because a build would need the web interface of Prometheus.
The CRDs of other projects are in the Go modules that those projects publish.

The tests do not use kubeconform, because its schemas have to be downloaded. A real API server is always available and
validates more.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hookwright_dev import packages
from hookwright_dev.cluster.assets import GO_VERSION
from hookwright_dev.errors import DevError
from hookwright_dev.exclusion import exclusive
from hookwright_dev.processes import ChildProcess
from hookwright_dev.progress import progress

_INSTALL_SECONDS: Final = 600.0


class ToolError(DevError):
    """A tool that is not available; the message names the package or variable."""


@dataclass(frozen=True, slots=True)
class GoTool:
    """A program that Go builds.

    Attributes:
        name: the executable's name.
        module: Go's path of its module.
        version: the pinned version, ``v`` included.
        package: the main package, relative to the module.
        ldflags: the linker's flags; without them helm does not know its own version.
    """

    name: str
    module: str
    version: str
    package: str = "."
    ldflags: str = "-s -w"


HELM: Final = GoTool(
    "helm",
    "helm.sh/helm/v4",
    "v4.3.1",
    "./cmd/helm",
    "-s -w -X helm.sh/helm/v4/internal/version.version=v4.3.1",
)
KUBE_STATE_METRICS: Final = GoTool("kube-state-metrics", "k8s.io/kube-state-metrics/v2", "v2.15.0")
ACTIONLINT: Final = GoTool("actionlint", "github.com/rhysd/actionlint", "v1.7.7", "./cmd/actionlint")
OAPI_CODEGEN: Final = GoTool("oapi-codegen", "github.com/oapi-codegen/oapi-codegen/v2", "v2.8.2", "./cmd/oapi-codegen")


@dataclass(frozen=True, slots=True)
class GoModule:
    """A module with useful files beside its Go code.

    Attributes:
        path: Go's path of the module.
        version: the pinned version, ``v`` included.
        files: the files, relative to the module.
    """

    path: str
    version: str
    files: tuple[str, ...]


PROMETHEUS_CRDS: Final = GoModule(
    "github.com/prometheus-operator/prometheus-operator",
    "v0.85.0",
    (
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    ),
)
KEDA_CRDS: Final = GoModule("github.com/kedacore/keda/v2", "v2.21.0", ("config/crd/bases/keda.sh_scaledobjects.yaml",))
GATEWAY_CRDS: Final = GoModule(
    "sigs.k8s.io/gateway-api", "v1.4.0", ("config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",)
)


def acquire_tool(tool: GoTool, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the executable of ``tool``; build it first if the cache lacks it (helm: some 2 minutes).

    ``HOOKWRIGHT_HELM`` may name an executable to use instead. Raises `ToolError` if that is no executable, Go is
    missing, or the build fails.
    """
    if variable_path := environ.get(_variable(tool)):
        if not os.access(variable_path, os.X_OK):
            raise ToolError(f"{_variable(tool)}: {variable_path} is no executable file; name one, or unset it")
        return Path(variable_path).resolve()
    folder = tools_folder(environ) / f"{tool.name}-{tool.version}"
    executable = folder / tool.name
    if not os.access(executable, os.X_OK):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(folder.with_name(f"{folder.name}.lock"), tool.name):
            if not os.access(executable, os.X_OK):  # another process may have built it while this one waited
                _build(tool, folder, environ)
    return executable


def tools_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the cache with the tools, each in a folder named after its version."""
    home = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "hookwright" / "tools"


def acquire_files(module: GoModule, environ: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Return the files of ``module``; Go downloads them into its own cache and verifies them.

    Raises `ToolError` if Go is missing or the module is not available.
    """
    folder = _downloaded(_go(module.path, environ), module.path, module.version, environ)
    return tuple(folder / file for file in module.files)


def acquire_promtool(environ: Mapping[str, str] = os.environ) -> Path:
    """Return promtool from the PATH, or install it with Debian's ``prometheus`` package, which needs root.

    Raises `ToolError` with the name of the package if that is not possible.
    """
    promtool = shutil.which("promtool", path=environ.get("PATH"))
    if promtool is None:
        _apt_install("prometheus", "promtool", environ)
        promtool = shutil.which("promtool", path=environ.get("PATH"))
    if promtool is None:
        raise ToolError("promtool: the package prometheus was installed, but no promtool is on the PATH")
    return Path(promtool)


def _variable(tool: GoTool) -> str:
    return f"HOOKWRIGHT_{tool.name.upper().replace('-', '_')}"


def _go(tool: str, environ: Mapping[str, str]) -> str:
    go = shutil.which("go", path=environ.get("PATH"))
    if go is None:
        raise ToolError(f"{tool}: there is no `go` on the PATH; install Go {GO_VERSION} or later (https://go.dev/dl)")
    return go


def _downloaded(go: str, module: str, version: str, environ: Mapping[str, str]) -> Path:
    """Return the folder of a module in Go's own cache."""
    process = subprocess.run(
        [go, "mod", "download", "-json", f"{module}@{version}"],
        cwd=tempfile.gettempdir(),
        env={**environ, "GOWORK": "off", "GOFLAGS": ""},
        capture_output=True,
        text=True,
        timeout=_INSTALL_SECONDS,
        check=False,
    )
    description = json.loads(process.stdout or "{}")
    if process.returncode != 0:
        raise ToolError(f"go mod download {module}@{version}: {description.get('Error', process.stderr.strip())}")
    return Path(description["Dir"])


def _build(tool: GoTool, folder: Path, environ: Mapping[str, str]) -> None:
    go = _go(tool.name, environ)
    scratch = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        _go_build(go, tool, scratch, environ)
        shutil.rmtree(folder, ignore_errors=True)
        scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _go_build(go: str, tool: GoTool, scratch: Path, environ: Mapping[str, str]) -> None:
    # `go install` also requests the list of versions, and some proxies do not serve it.
    source = _downloaded(go, tool.module, tool.version, environ)
    options = ["-v", "-trimpath", "-ldflags", tool.ldflags]
    with (
        progress(f"building {tool.name} {tool.version}, a few minutes the first time") as show,
        ChildProcess.start(
            "go build",
            [go, "build", "-C", source, "-o", scratch / tool.name, *options, tool.package],
            log=scratch / "build.log",
            env={**environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": ""},
        ) as compiler,
    ):
        while compiler.running:
            show(f"{len(compiler.log.read_bytes().splitlines())} packages")
            time.sleep(0.2)
    if compiler.returncode != 0:
        raise ToolError(f"{tool.name}: go build of {tool.module}@{tool.version} failed:\n{compiler.tail(10)}")


def _apt_install(package: str, tool: str, environ: Mapping[str, str]) -> None:
    try:
        packages.install(package, environ=environ)
    except packages.PackageError as error:
        raise ToolError(f"{tool}: not on the PATH, and {error}") from None
