"""The routes of ``/v1``, one module per resource."""

from fastapi import APIRouter

from hookwright_api.routes import (
    auth,
    event_types,
    keys,
    operator_routes,
    projects,
    webhook_creation,
    webhook_secrets,
    webhooks,
)


def routers() -> tuple[APIRouter, ...]:
    """Return every router."""
    return (
        auth.router,
        projects.router,
        keys.router,
        webhook_creation.router,
        webhooks.router,
        webhook_secrets.router,
        operator_routes.router,
        event_types.router,
    )
