"""A release: the workflow is valid, its files are made here, and no public name is a default."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from support.chart_rendering import Chart

from hookwright_dev import release
from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.errors import DevError

SETTINGS = {
    "IMAGE_REPOSITORY": "registry.example.org/hooks/hookwright",
    "CHART_REPOSITORY": "oci://registry.example.org/hooks",
}
pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("change", ["", "needs.image.outputs.digest"])
def test_the_workflow_passes_actionlint(actionlint: Path, change: str, tmp_path: Path) -> None:
    """Expressions, needs and outputs fit together; a wrong name is found, so the check can fail."""
    text = (ROOT / ".github" / "workflows" / "ci.yaml").read_text()
    (tmp_path / "ci.yaml").write_text(text.replace(change, f"{change}s") if change else text)
    command = [str(actionlint), "-shellcheck=", "-pyflakes=", str(tmp_path / "ci.yaml")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode == 0) is not bool(change), result.stdout
    assert ('"digests" is not defined' in result.stdout) is bool(change)


def test_a_tag_that_contradicts_the_checkout_is_refused_before_anything_is_pushed() -> None:
    """The message names the setting, the versions, or the missing section; without a tag no name is needed."""
    version = release.checkout_version()
    for name in ("IMAGE_REPOSITORY", "CHART_REPOSITORY"):
        with pytest.raises(DevError, match=f"{name} is not set"):
            release.release_of({**SETTINGS, name: "", "GITHUB_REF": f"refs/tags/v{version}"})
    with pytest.raises(DevError, match=rf"the tag is v9\.9\.9, but the version of the checkout is {version}"):
        release.workflow_settings({**SETTINGS, "GITHUB_REF": "refs/tags/v9.9.9"})
    untagged = release.workflow_settings({"GITHUB_REF": "refs/heads/main"})
    assert untagged == {"push": "false", "version": version, "image": "hookwright", "registry": ""}


def test_a_release_has_every_file(chart: Chart, tmp_path: Path) -> None:
    """The checksums fit, the single file runs, and the chart renders without values, with the released image."""
    folder = tmp_path / "release"
    new_release = release.release_of(SETTINGS)
    names = {path.name for path in release.write_files(new_release, folder)}
    assert names == {
        *("SHA256SUMS", "hookwright.pyz", "hookwright-site.tar.gz"),
        *(f"hookwright-{new_release.version}.tgz", f"hookwright_cli-{new_release.version}-py3-none-any.whl"),
    }
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder, check=True, capture_output=True)
    check_command_line(folder, new_release.version, tmp_path)
    outcome = subprocess.run(
        [chart.helm, "template", folder / f"hookwright-{new_release.version}.tgz"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert f'image: "{new_release.image}:{new_release.version}"' in outcome.stdout
    check_site(folder / release.SITE, tmp_path / "site")


def check_command_line(folder: Path, version: str, home: Path) -> None:
    """Run the single file without the packages of this environment; no package of the server is in it."""
    program = [sys.executable, "-S", str(folder / "hookwright.pyz")]
    for argument, text in (("--version", f"hookwright {version}\n"), ("--help", "deliveries")):
        output = subprocess.run(
            [*program, argument], env={"HOME": str(home), "PATH": ""}, capture_output=True, text=True, check=True
        )
        assert text in output.stdout
    config = {"clusters": [{"name": "away", "cluster": {"server": "http://127.0.0.1:9"}}], "current-context": "away"}
    config |= {"contexts": [{"name": "away", "context": {"cluster": "away", "user": "none"}}], "users": []}
    (home / "kubeconfig").write_text(json.dumps(config))
    away = [*program, "endpoints", "list", "--kubeconfig", str(home / "kubeconfig")]
    result = subprocess.run(away, env={"HOME": str(home), "PATH": ""}, capture_output=True, text=True, check=False)
    assert (result.returncode, "the API server" in result.stderr) == (6, True), result.stderr
    packages = {name.partition("/")[0] for name in ZipFile(folder / "hookwright.pyz").namelist()}
    assert "hookwright_cli" in packages
    assert not packages & {"hookwright_operator", "fastapi", "sqlalchemy", "kopf", "starlette", "uvicorn"}
    wheel = ZipFile(folder / f"hookwright_cli-{version}-py3-none-any.whl")
    scripts = wheel.read(f"hookwright_cli-{version}.dist-info/entry_points.txt").decode()
    assert {line.partition(" = ")[0] for line in scripts.split("\n")} >= {"hookwright", "kubectl-hookwright"}


def check_site(archive: Path, folder: Path) -> None:
    """The pages work without the internet. The search finds the guides, and no decision, measurement or trick."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    icon = yaml.safe_load((ROOT / "charts/hookwright/Chart.yaml").read_text())["icon"]
    assert (folder / icon.removeprefix("https://hookwright.dev/docs/")).exists()
    for page in ("index.html", "gitops/index.html", "chart/index.html", "receivers/receiver.go/index.html"):
        text = (folder / page).read_text()
        for pattern in ('<script src="http', 'rel="stylesheet" href="http', "fonts.googleapis"):
            assert pattern not in text, page
    index = json.loads((folder / "search" / "search_index.json").read_text())
    places = {document["location"].partition("/")[0] for document in index["docs"]}
    assert places >= {"install", "gitops", "chart"}
    assert not places & {"decisions", "measurements", "tricks", "pitfalls"}


def test_no_page_prints_a_public_name_that_somebody_else_could_register() -> None:
    """A reader who runs a printed command installs nothing from a name that does not belong to this project."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("cli/*.md"), *ROOT.glob("charts/*/*.md")]
    pages += ROOT.glob("charts/hookwright/*.yaml")
    pages += [ROOT / "charts/hookwright/templates/NOTES.txt"]
    for page in pages:
        text = page.read_text()
        for name in (
            "pipx install hookwright",
            "pip install hookwright",
            "hookwright/hookwright:",
            "krew install hookwright",
        ):
            assert name not in text, f"{page.name} prints {name}"
