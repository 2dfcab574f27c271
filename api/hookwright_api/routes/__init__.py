"""The routes of ``/v1``, one module per resource."""

from fastapi import APIRouter

from hookwright_api.routes import (
    auth,
    deliveries,
    event_types,
    events,
    keys,
    messages,
    projects,
    replays,
    statistics,
    webhooks,
)


def routers() -> tuple[APIRouter, ...]:
    """Return every router."""
    return (
        auth.router,
        projects.router,
        keys.router,
        webhooks.router,
        webhooks.changes,
        webhooks.rotations,
        webhooks.tests,
        messages.router,
        replays.router,
        statistics.router,
        deliveries.router,
        events.router,
        events.reading,
        event_types.router,
    )
