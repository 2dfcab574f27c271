"""The routes of ``/v1``, one module per resource."""

from fastapi import APIRouter

from hookwright_api.routes import auth, deliveries, events, keys, webhooks


def routers() -> tuple[APIRouter, ...]:
    """Return every router."""
    return (auth.public, auth.router, keys.router, webhooks.router, webhooks.tests, deliveries.router, events.router)
