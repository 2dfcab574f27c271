"""Checks of a page with axe-core, in both themes and at both widths."""

from collections.abc import Iterator, Sequence
from typing import Final

from playwright.sync_api import Page

TAGS: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RULES_OF_COLORS: Final = ["color-contrast", "link-in-text-block"]
THEMES: Final = {"light": TAGS, "dark": RULES_OF_COLORS}
"""What axe-core checks in each theme: a theme changes colors only."""
VIEWS: Final = ((390, "light"), (1200, "light"), (1200, "dark"))
"""Widths and themes. A width changes the layout, and a theme the colors."""


def violations_of(page: Page, path: str, script: str, views: Sequence[tuple[int, str]] = VIEWS[::2]) -> Iterator[str]:
    """Yield what axe-core finds on the present page, and that it is wider than the screen."""
    # The policy of the page forbids scripts of others; a test runs this one in the page's world.
    page.evaluate(script)
    for width, theme in views:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
        run = "rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})"
        for violation in page.evaluate(run, THEMES[theme])["violations"]:
            yield f"{theme} {width} {path}: {violation['id']} {[node['target'] for node in violation['nodes']]}"
        if not page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
            yield f"{theme} {width} {path} is too wide"
