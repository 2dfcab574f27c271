"""Pure: the paths of the console, and the tabs of a project and of an endpoint."""

from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit

HOME: Final = "/console/"


class Tab(NamedTuple):
    """A tab.

    Attributes:
        name: the value of ``tab`` in the templates of its page.
        title: for people.
        suffix: the end of its path.
    """

    name: str
    title: str
    suffix: tuple[str, ...]


PROJECT_TABS: Final = (
    Tab("endpoints", "Endpoints", ()),
    Tab("deliveries", "Deliveries", ("deliveries",)),
    Tab("keys", "API keys", ("keys",)),
    Tab("test", "Send a test event", ("test",)),
)
"""Tabs at ``/console/projects/{project}/…``."""

ENDPOINT_TABS: Final = (
    Tab("overview", "Overview", ()),
    Tab("deliveries", "Deliveries", ("deliveries",)),
    Tab("replays", "Replays", ("replays",)),
    Tab("verify", "Verify", ("verify",)),
    Tab("configuration", "Configuration", ("configuration",)),
    Tab("secret", "Signing secret", ("secret",)),
)
"""Tabs at ``/console/projects/{project}/endpoints/{endpoint}/…``."""


def console_path(*parts: str) -> str:
    """Return a path of the console; each part is escaped."""
    return HOME + "/".join(quote(part, safe="") for part in parts)


def endpoint_path(project: str, endpoint: str, *parts: str) -> str:
    """Return a path of an endpoint's pages."""
    return console_path("projects", project, "endpoints", endpoint, *parts)


def own_path(written: str) -> str:
    """Return the path that a login leads to: the given one if it is a page of the console, otherwise the first page."""
    try:
        parts = urlsplit(written)
    except ValueError:
        return HOME
    inside = written.startswith(HOME) and not (parts.scheme or parts.netloc) and written.isprintable()
    return written if inside and "\\" not in written else HOME
