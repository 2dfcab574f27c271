"""Hook of mkdocs: pages of the repository outside of docs/ become pages of the site, and links to them stay correct.

mkdocs loads this file by its path (``mkdocs.yml``). A link to a file that is neither a page nor in docs/ fails the
build.
"""

import os
import re
from pathlib import Path, PurePosixPath
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "charts/hookwright/README.md": "chart.md",
}
"""The place in the site of each page outside of docs/."""
_LINK: Final = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]*)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside of docs/."""
    for source, place in PAGES.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - mkdocs calls by keyword
    """Return the page with links to the places in the site."""
    places = {place: source for source, place in PAGES.items()}
    source = PurePosixPath(places.get(page.file.src_uri, f"docs/{page.file.src_uri}"))
    return _LINK.sub(lambda link: _place(link[1], source, page.file.src_uri), markdown)


def _place(target: str, source: PurePosixPath, page: str) -> str:
    """Return the link from a page of the site to a file that its source links to."""
    file = os.path.normpath(source.parent / target)
    place = PAGES.get(file) or (file.removeprefix("docs/") if file.startswith("docs/") else "")
    if not place:
        raise PluginError(f"{source} links to {target}, which is no page of the site")
    return os.path.relpath(place, PurePosixPath(page).parent)
