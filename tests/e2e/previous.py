"""The previous chart: that of the last release or, without a release, a generated one that resembles it."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import yaml
from e2e.installing import CHART

from hookwright_dev.cluster.stack import ROOT

OLD_VERSION: Final = "0.0.1"
LACKING: Final = "rateLimit"
"""The field of an endpoint's spec that the generated chart's CRD does not know."""


def previous_chart(folder: Path) -> Path:
    """Write the previous chart into ``folder``: that of the last git tag or, without a tag, a generated one."""
    tag = _git("describe", "--tags", "--abbrev=0", "HEAD^").strip()
    place = CHART.relative_to(ROOT)
    if tag and _git("ls-tree", tag, str(place)):
        archive = subprocess.run(["git", "archive", tag, str(place)], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        return folder / place
    return _made(folder / "previous")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout


def _made(chart: Path) -> Path:
    """Copy the present chart with a lower version, and without a field in the endpoints' CRD and its rules."""
    shutil.copytree(CHART, chart)
    description = yaml.safe_load((chart / "Chart.yaml").read_text())
    # The pods' labels contain the version, so the upgrade replaces the pods, as a new image does.
    (chart / "Chart.yaml").write_text(
        yaml.safe_dump({**description, "version": OLD_VERSION, "appVersion": OLD_VERSION})
    )
    path = chart / "files" / "crds" / "webhookendpoints.yaml"
    crd = yaml.safe_load(path.read_text())
    for version in crd["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        del spec["properties"][LACKING]
        rules = spec["x-kubernetes-validations"]
        spec["x-kubernetes-validations"] = [rule for rule in rules if LACKING not in rule["rule"]]
    path.write_text(yaml.safe_dump(crd, sort_keys=False))
    return chart
