"""Plain manifests of ``deploy/``, rendered from the chart for installations without Helm."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from hookwright_dev.chart.generate import CHART
from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.tools import HELM, ToolError, acquire_tool

DEPLOY: Final = Path("deploy")
NAMESPACE: Final = "hookwright-system"
_HEADER: Final = "# Rendered from charts/hookwright by `python -m hookwright_dev.chart --deploy`; do not edit.\n"
_HELMS_OWN: Final = ("helm.sh/chart", "app.kubernetes.io/managed-by")
_HELMS_PREFIX: Final = "helm.sh/"


def files(root: Path) -> dict[Path, str]:
    """Return each rendered file's path and text.

    Raises:
        ToolError: helm is not available, or refuses the chart.
    """
    documents = list(_plain(yaml.safe_load_all(render(root))))
    crds = [document for document in documents if document["kind"] == "CustomResourceDefinition"]
    others = [document for document in documents if document["kind"] != "CustomResourceDefinition"]
    return {DEPLOY / "crds.yaml": _text(crds), DEPLOY / "hookwright.yaml": _text(others)}


def render(root: Path = ROOT, *arguments: str, release: str = "hookwright", namespace: str = NAMESPACE) -> str:
    """Return the output of ``helm template`` for the chart, without its hooks.

    Raises:
        ToolError: helm is not available, or refuses the values; the message is helm's.
    """
    argv = [
        str(acquire_tool(HELM)),
        "template",
        release,
        str(root / CHART),
        "--namespace",
        namespace,
        "--no-hooks",
        *arguments,
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise ToolError(f"helm template: {done.stderr.strip()}")
    return done.stdout


def _plain(documents: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the documents without Helm's own fields."""
    for document in filter(None, documents):
        pod = document.get("spec", {}).get("template", {}).get("metadata", {})
        for metadata in (document["metadata"], pod):
            for name in _HELMS_OWN:
                metadata.get("labels", {}).pop(name, None)
            kept = {key: text for key, text in metadata.pop("annotations", {}).items() if _HELMS_PREFIX not in key}
            if kept:
                metadata["annotations"] = kept
        yield document


def _text(documents: list[dict[str, Any]]) -> str:
    return _HEADER + yaml.safe_dump_all(documents, sort_keys=False, width=120, allow_unicode=True)
