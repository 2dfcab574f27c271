"""The site of mkdocs: it builds, and a link that leads nowhere stops the build."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.site_pages import MARK, PAGES

pytestmark = pytest.mark.timeout(300)


def _build(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("mkdocs"), "build"],
        cwd=folder,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of all files that the site needs."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    hook = Path("dev/hookwright_dev/site_pages.py")
    for name in (*PAGES, str(hook), str(MARK.relative_to(ROOT))):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.mark.slow
def test_the_site_loads_nothing_from_another_host(checkout: Path) -> None:
    """The pages work without the internet. The search finds the guides, and no decision, measurement or trick."""
    result = _build(checkout)
    assert result.returncode == 0, result.stdout + result.stderr
    for page in ("index.html", "gitops/index.html", "chart/index.html", "receivers/receiver.go/index.html"):
        text = (checkout / "build" / "site" / page).read_text()
        for pattern in ('<script src="http', 'rel="stylesheet" href="http', "fonts.googleapis"):
            assert pattern not in text, page
    index = json.loads((checkout / "build" / "site" / "search" / "search_index.json").read_text())
    places = {document["location"].partition("/")[0] for document in index["docs"]}
    assert places >= {"install", "gitops", "chart"}
    assert not places & {"decisions", "measurements", "tricks", "pitfalls"}


def test_faults_are_reported_in_private_by_a_way_that_exists() -> None:
    """The security policy names the private advisories of the repository, and no invented address."""
    policy = (ROOT / "SECURITY.md").read_text()
    assert "private security advisory" in policy
    assert "**Report a vulnerability**" in policy
    assert not re.search(r"mailto:|[\w.]+@[\w.]+", policy)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("links", "targets"),
    [
        ("[no page](nowhere.md) [no heading](faq.md#no-heading)", ("nowhere.md", "no-heading")),
        ("[no file](../NO-FILE.md)", ("NO-FILE.md",)),
    ],
)
def test_a_link_that_leads_nowhere_stops_the_build(checkout: Path, links: str, targets: tuple[str, ...]) -> None:
    """Pages, headings and files of the repository are checked."""
    with (checkout / "docs" / "glossary.md").open("a") as page:
        page.write(f"\n{links}\n")
    result = _build(checkout)
    assert result.returncode != 0
    for target in targets:
        assert target in result.stdout + result.stderr
