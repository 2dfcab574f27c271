"""The pages of the console, one module per subject; each adds its routes to `ROUTES`."""

from hookwright_api.console.page_route import ROUTES
from hookwright_api.console.routes import (  # noqa: F401 - each adds its routes
    deliveries,
    endpoints,
    keys,
    organization,
    projects,
    replays,
    sessions,
    test_events,
    verification,
)

__all__ = ["ROUTES"]
