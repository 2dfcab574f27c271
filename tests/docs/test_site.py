"""The site of mkdocs: a link that leads nowhere stops the build. `make check` and a release build the site."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest
from mkdocs.exceptions import PluginError

from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.site_pages import MARK, PAGES, _place

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


def test_faults_are_reported_in_private_by_a_way_that_exists() -> None:
    """The security policy names the private advisories of the repository, and no invented address."""
    policy = (ROOT / "SECURITY.md").read_text()
    assert "private security advisory" in policy
    assert "**Report a vulnerability**" in policy
    assert not re.search(r"mailto:|[\w.]+@[\w.]+", policy)


@pytest.mark.slow
def test_a_link_that_leads_nowhere_stops_the_build(checkout: Path) -> None:
    """Pages and headings are checked."""
    with (checkout / "docs" / "glossary.md").open("a") as page:
        page.write("\n[no page](nowhere.md) [no heading](faq.md#no-heading)\n")
    result = _build(checkout)
    assert result.returncode != 0
    for target in ("nowhere.md", "no-heading"):
        assert target in result.stdout + result.stderr


def test_a_link_to_no_file_of_the_repository_stops_the_build() -> None:
    """A file outside of docs/ that is no page of the site is an error."""
    assert _place("../SECURITY.md", PurePosixPath("docs/faq.md"), "faq.md") == "security-policy.md"
    with pytest.raises(PluginError, match=r"docs/faq\.md links to \.\./NO-FILE\.md"):
        _place("../NO-FILE.md", PurePosixPath("docs/faq.md"), "faq.md")
