"""The pages of the console, one module per subject."""

from hookwright_api.console.page_route import ConsoleRoute
from hookwright_api.console.routes import (
    deliveries,
    endpoint_forms,
    endpoints,
    keys,
    organization,
    projects,
    replays,
    sessions,
    statistics,
    test_events,
    verification,
)


def console_routes() -> tuple[ConsoleRoute, ...]:
    """Return every page and action."""
    modules = (
        sessions,
        organization,
        projects,
        keys,
        test_events,
        endpoint_forms,
        endpoints,
        deliveries,
        replays,
        statistics,
        verification,
    )
    return tuple(route for module in modules for route in module.console.routes)
