"""Helpers of the chart tests: render, refuse and lint the chart."""

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hookwright_dev.cluster.stack import ROOT

CHART = ROOT / "charts" / "hookwright"
Object = dict[str, Any]
Values = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Chart:
    """The chart, with the helm that renders it."""

    helm: Path

    def run(self, *arguments: str, values: Values | None = None) -> subprocess.CompletedProcess[str]:
        """Run helm with values, as with ``-f``, and return the finished process."""
        return subprocess.run(
            [self.helm, *arguments, "-f", "-"],
            input=yaml.safe_dump(dict(values or {})),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def text(self, values: Values | None = None, *, namespace: str = "hookwright-system") -> str:
        """Return the text that the chart renders, hooks included."""
        done = self.run("template", "hookwright", str(CHART), "--namespace", namespace, values=values)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def objects(self, values: Values | None = None, *, namespace: str = "hookwright-system") -> list[Object]:
        """Return the objects that the chart renders."""
        return [document for document in yaml.safe_load_all(self.text(values, namespace=namespace)) if document]

    def refusal(self, values: Values) -> str:
        """Return helm's message about values that it must refuse."""
        done = self.run("template", "hookwright", str(CHART), values=values)
        assert done.returncode != 0, f"helm took {dict(values)}"
        return done.stderr


def of_kind(objects: list[Object], *kinds: str) -> Iterator[Object]:
    """Yield the objects of some kinds."""
    return (document for document in objects if document["kind"] in kinds)


def named(objects: list[Object], kind: str, name: str) -> Object:
    """Return the one object of a kind and name."""
    (found,) = [document for document in of_kind(objects, kind) if document["metadata"]["name"] == name]
    return found


def container(objects: list[Object], component: str) -> Object:
    """Return the container of the operator or the API."""
    deployment = named(objects, "Deployment", f"hookwright-{component}")
    (found,) = deployment["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def environment(objects: list[Object], component: str) -> dict[str, str]:
    """Return the environment variables that a component's container gets by value."""
    return {item["name"]: item["value"] for item in container(objects, component)["env"] if "value" in item}
