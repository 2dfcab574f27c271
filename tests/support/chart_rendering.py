"""Helpers of the chart tests: render, refuse and lint the chart, and read the renderings of ``tests/chart/golden``.

``make chart`` runs this module, which writes the renderings.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.tools import HELM, acquire_tool

CHART = ROOT / "charts" / "hookwright"
REPOSITORY = "registry.example.com/hookwright"
"""The image's repository in values that name none, because the chart has no default."""
Object = dict[str, Any]
Values = Mapping[str, object]
GOLDEN_FOLDER: Final = ROOT / "tests" / "chart" / "golden"
POSTGRES: Final[Object] = {"database": {"existingSecret": {"name": "store"}}}
_API_SERVER: Final = {"ipBlock": {"cidr": "10.96.0.1/32"}}
GOLDEN: Final[Mapping[str, Object]] = {
    "default": {},
    "separate": {
        **POSTGRES,
        "delivery": {"separate": True},
        "metrics": {"serviceMonitor": {"enabled": True, "namespace": "monitoring"}},
    },
    "namespaces": {
        **POSTGRES,
        "delivery": {"separate": True},
        "rbac": {"manageProjects": True},
        "settings": {"watchNamespaces": ["acme", "globex"]},
    },
    "replicas": {
        **POSTGRES,
        "delivery": {"replicas": 3},
        "metrics": {"podMonitor": {"enabled": True}},
        "networkPolicy": {
            "egress": {
                "apiServerTo": [_API_SERVER],
                "dnsTo": [_API_SERVER],
                "databaseTo": [{"ipBlock": {"cidr": "10.20.0.5/32"}}],
            }
        },
        "rateLimits": {"existingSecret": {"name": "counters"}},
        "rbac": {"aggregate": True, "manageProjects": True},
        "settings": {"passwordChange": True},
    },
}
"""The values of each golden rendering, by the name of its file."""


def parsed(text: str) -> list[Object]:
    """Return the objects of a YAML text."""
    return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]


@cache
def golden(name: str) -> list[Object]:
    """Return the objects of a golden rendering, which are those of the chart without its CRDs."""
    return parsed((GOLDEN_FOLDER / f"{name}.yaml").read_text())


@dataclass(frozen=True, slots=True)
class Chart:
    """The chart, with the helm that renders it."""

    helm: Path

    def run(self, *arguments: str, values: Values | None = None) -> subprocess.CompletedProcess[str]:
        """Run helm with values, as with ``-f``, and return the finished process."""
        return subprocess.run(
            [self.helm, *arguments, "-f", "-"],
            env={**os.environ, "GOGC": "400"},  # a third less CPU for a process that ends at once
            input=yaml.safe_dump(_with_image(values or {})),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def text(self, values: Values | None = None, *arguments: str, namespace: str = "hookwright-system") -> str:
        """Return the text that the chart renders, hooks included."""
        result = self.run("template", "hookwright", str(CHART), "--namespace", namespace, *arguments, values=values)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def objects(self, values: Values | None = None, *, namespace: str = "hookwright-system") -> list[Object]:
        """Return the objects that the chart renders."""
        return parsed(self.text(values, namespace=namespace))

    def refusal(self, values: Values) -> str:
        """Return helm's message about values that it must refuse."""
        result = self.run("template", "hookwright", str(CHART), values=values)
        assert result.returncode != 0, f"helm took {dict(values)}"
        return result.stderr


def _with_image(values: Values) -> Object:
    image = values.get("image", {})
    assert isinstance(image, dict)
    return {**values, "image": {"repository": REPOSITORY, **image}}


def of_kind(objects: list[Object], *kinds: str) -> Iterator[Object]:
    """Yield the objects of some kinds."""
    return (document for document in objects if document["kind"] in kinds)


def named(objects: list[Object], kind: str, name: str) -> Object:
    """Return the one object of a kind and name."""
    (matches,) = [document for document in of_kind(objects, kind) if document["metadata"]["name"] == name]
    return matches


def container(objects: list[Object], component: str) -> Object:
    """Return the container of the operator or the API."""
    deployment = named(objects, "Deployment", f"hookwright-{component}")
    (first,) = deployment["spec"]["template"]["spec"]["containers"]
    assert isinstance(first, dict)
    return first


def environment(objects: list[Object], component: str) -> dict[str, str]:
    """Return the environment variables that a component's container gets by value."""
    return {item["name"]: item["value"] for item in container(objects, component)["env"] if "value" in item}


def golden_text(chart: Chart, name: str) -> str:
    """Return the golden rendering of a name, as helm renders it now."""
    objects = [document for document in chart.objects(GOLDEN[name]) if document["kind"] != "CustomResourceDefinition"]
    return yaml.safe_dump_all(objects, sort_keys=False, width=120, allow_unicode=True)


if __name__ == "__main__":
    for name in GOLDEN:
        (GOLDEN_FOLDER / f"{name}.yaml").write_text(golden_text(Chart(acquire_tool(HELM)), name))
