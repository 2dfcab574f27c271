"""Hook of mkdocs: files of the repository outside of docs/ become pages of the site, and links to them stay correct.

mkdocs loads this file by its path (``mkdocs.yml``). A link to a file that is neither a page nor in docs/ fails the
build. The search of the site finds only pages of the navigation.
"""

import os
import re
from pathlib import Path, PurePosixPath
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
_RECEIVER_CODE: Final = "api/hookwright_api/receiver_code"
PAGES: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "charts/hookwright/README.md": "chart.md",
    **{f"{_RECEIVER_CODE}/{file.name}": f"receivers/{file.name}.md" for file in (ROOT / _RECEIVER_CODE).glob("*.*")},
}
"""The place in the site of each page outside of docs/, and of the receivers' code."""
MARK: Final = ROOT / "api/hookwright_api/console/static/mark.svg"
_LINK: Final = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]*)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside of docs/, and the mark, which is the chart's icon."""
    files.append(File.generated(config, MARK.name, content=MARK.read_bytes()))
    for source, place in PAGES.items():
        text, kind = (ROOT / source).read_text(), PurePosixPath(source).suffix[1:]
        if kind != "md":
            text = f"# {PurePosixPath(source).name}\n\n```{'js' if kind == 'mjs' else kind}\n{text}```\n"
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - mkdocs calls by keyword
    """Return the page with links to the places in the site; search finds it if it is in the navigation."""
    page.meta["search"] = {"exclude": page.file.inclusion == InclusionLevel.NOT_IN_NAV}
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
