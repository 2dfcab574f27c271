"""A release: its settings and checks, and its files. The workflow signs and publishes them.

``python -m hookwright_dev.release settings`` checks a tag and prints what the workflow needs; ``files`` writes
``dist/release``.

Names in public registries are settings, because somebody else could register a name that this project prints:
``IMAGE_REPOSITORY`` and ``CHART_REPOSITORY``.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from hookwright_dev import command_artefacts
from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.errors import DevError
from hookwright_dev.tools import HELM, acquire_tool

FOLDER: Final = ROOT / "dist" / "release"
SUMS: Final = "SHA256SUMS"
SITE: Final = "hookwright-site.tar.gz"
CHART: Final = ROOT / "charts" / "hookwright"
_TAG: Final = "refs/tags/v"
_EXAMPLES: Final = {
    "IMAGE_REPOSITORY": "registry.example.com/hookwright",
    "CHART_REPOSITORY": "oci://registry.example.com/charts",
}


class Release(NamedTuple):
    """One release: its version without ``v``, and the image's repository."""

    version: str
    image: str


def release_of(environ: Mapping[str, str]) -> Release:
    """Return the release of the checkout, with the names of the settings.

    Raises:
        DevError: a setting is missing, or versions of the checkout or of the tag differ.
    """
    for name, example in _EXAMPLES.items():
        if not environ.get(name):
            raise DevError(f"{name} is not set: a release needs it, such as {example}")
    version, tag = checkout_version(), environ.get("GITHUB_REF", "")
    if tag.startswith(_TAG) and tag != f"{_TAG}{version}":
        raise DevError(f"the tag is {tag.removeprefix('refs/tags/')}, but the version of the checkout is {version}")
    if tag.startswith(_TAG) and f"\n## [{version}]" not in (ROOT / "CHANGELOG.md").read_text():
        raise DevError(f"CHANGELOG.md has no section [{version}]: name the section of this release so")
    return Release(version, environ["IMAGE_REPOSITORY"])


def checkout_version() -> str:
    """Return the version that all parts of the checkout have.

    Raises:
        DevError: they differ.
    """
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    versions = {"Chart.yaml version": chart["version"], "Chart.yaml appVersion": chart["appVersion"]}
    for path in ("pyproject.toml", "cli/pyproject.toml"):
        versions[path] = tomllib.loads((ROOT / path).read_text())["project"]["version"]
    if len(set(versions.values())) > 1:
        raise DevError(f"the versions must be the same: {versions}")
    return str(chart["version"])


def workflow_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the outputs of the workflow's first step; without a tag nothing is pushed and no name is needed."""
    if not environ.get("GITHUB_REF", "").startswith(_TAG):
        return {"push": "false", "version": checkout_version(), "image": "hookwright", "registry": ""}
    release = release_of(environ)
    registry = release.image.partition("/")[0]
    return {"push": "true", "version": release.version, "image": release.image, "registry": registry}


def write_files(release: Release, folder: Path) -> list[Path]:
    """Write every file of a release into a new folder: command line, chart, site and checksums."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command_artefacts.write(folder)
    _write_chart(release, folder)
    _write_site(folder / SITE)
    names = sorted(path.name for path in folder.iterdir())
    lines = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (folder / SUMS).write_text("".join(lines))
    return sorted(folder.iterdir())


def _write_chart(release: Release, folder: Path) -> None:
    """Package the chart with the name of the released image, so that it needs no value."""
    with tempfile.TemporaryDirectory() as scratch:
        chart = shutil.copytree(CHART, Path(scratch) / "hookwright")
        values = (chart / "values.yaml").read_text()
        content, number = re.subn(r'^  repository: ""$', f"  repository: {release.image}", values, flags=re.MULTILINE)
        if number != 1:
            raise DevError('values.yaml of the chart must have one line `  repository: ""`, which is image.repository')
        (chart / "values.yaml").write_text(content)
        subprocess.run([acquire_tool(HELM), "package", chart, "--destination", folder], check=True, stdout=sys.stderr)


def _write_site(archive: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", scratch]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True)
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(scratch, arcname=".")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m hookwright_dev.release", description="Make a release.")
    parser.add_argument("step", choices=["settings", "files"])
    options = parser.parse_args(arguments)
    try:
        if options.step == "settings":
            print("\n".join(f"{name}={value}" for name, value in workflow_settings(os.environ).items()))
        else:
            for path in write_files(release_of(os.environ), FOLDER):
                print(path.relative_to(ROOT), path.stat().st_size)
    except DevError as error:
        print(f"release {options.step}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
