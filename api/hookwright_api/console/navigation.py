"""Pure: the paths of the console, and the tabs of a project and of an endpoint."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

HOME: Final = "/console/"
PROJECT_TABS: Final = {
    "endpoints": "Endpoints",
    "deliveries": "Deliveries",
    "event-types": "Event types",
    "keys": "API keys",
    "start": "Get started",
}
"""The titles of the tabs at ``/console/projects/{project}/{tab}``; the first tab is at the path of the project."""
ENDPOINT_TABS: Final = {
    "overview": "Overview",
    "deliveries": "Deliveries",
    "replays": "Replays",
    "verify": "Verify",
    "configuration": "Configuration",
    "secret": "Signing secret",
}
"""The same at ``/console/projects/{project}/endpoints/{endpoint}/{tab}``."""


def console_path(*parts: str) -> str:
    """Return a path of the console; each part is escaped."""
    return HOME + "/".join(quote(part, safe="") for part in parts)


def endpoint_path(project: str, endpoint: str, *parts: str) -> str:
    """Return a path of an endpoint's pages."""
    return console_path("projects", project, "endpoints", endpoint, *parts)


def address(path: str, values: Mapping[str, str] | None = None, **more: str) -> str:
    """Return a path with the values of a query; empty values are left out."""
    query = urlencode({name: value for name, value in {**(values or {}), **more}.items() if value})
    return f"{path}?{query}" if query else path


def own_path(path: str) -> str:
    """Return the path that a login leads to: the given one if it is a page of the console, otherwise the first page."""
    try:
        parts = urlsplit(path)
    except ValueError:
        return HOME
    is_inside = path.startswith(HOME) and not (parts.scheme or parts.netloc) and path.isprintable()
    return path if is_inside and "\\" not in path else HOME
