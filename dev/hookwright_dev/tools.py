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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hookwright_dev.cache import acquire_path, build_with_go, find_go, run_tool, tools_folder
from hookwright_dev.packages import acquire_program


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

    Raises `ToolError` if Go is missing, or the build fails.
    """

    def build(folder: Path) -> None:
        folder.mkdir()
        # `go install` also requests the list of versions, and some proxies do not serve it.
        source = _download(tool.module, tool.version, environ)
        title = f"{tool.name} {tool.version}"
        build_with_go(title, source, folder / tool.name, "-ldflags", tool.ldflags, tool.package, environ=environ)

    return acquire_path(tools_folder(environ) / f"{tool.name}-{tool.version}", tool.name, build) / tool.name


def acquire_files(module: GoModule, environ: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Return the files of ``module``; Go downloads them into its own cache and verifies them.

    Raises `ToolError` if Go is missing or the module is not available.
    """
    folder = _download(module.path, module.version, environ)
    return tuple(folder / file for file in module.files)


def acquire_promtool(environ: Mapping[str, str] = os.environ) -> Path:
    """Return promtool from the PATH, or install it with Debian's ``prometheus`` package, which needs root."""
    return acquire_program("promtool", "prometheus", environ)


def _download(module: str, version: str, environ: Mapping[str, str]) -> Path:
    """Return the folder of a module in Go's own cache."""
    argv = [find_go(module, environ), "mod", "download", "-json", f"{module}@{version}"]
    output = run_tool(f"go mod download {module}@{version}", argv, {**environ, "GOWORK": "off", "GOFLAGS": ""})
    return Path(json.loads(output)["Dir"])
