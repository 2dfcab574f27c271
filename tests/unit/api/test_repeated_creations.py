"""The object that an Idempotency-Key names, after an older one of the same key was deleted."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from hookwright_api.idempotency import REQUEST_ANNOTATION
from hookwright_api.rate_limits import Limiter
from hookwright_api.routes import webhook_creation
from hookwright_api.routes.webhook_creation import WebhookCreation
from hookwright_api.services import Services
from hookwright_api.settings import ApiSettings
from hookwright_api.view.view import View
from hookwright_crds.documents.webhook_bodies import WebhookRequest

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
WANTED = WebhookCreation("acme", "billing", WebhookRequest(url="https://example.com", events=["opened"]))


@pytest.fixture
def services() -> Services:
    """Return the services of an API with an empty view and a fixed clock."""
    settings, placeholder = ApiSettings(), cast("Any", None)
    return Services(settings, View(), placeholder, placeholder, Limiter(settings), placeholder, now=lambda: NOW)


def put(services: Services, name: str, created: datetime) -> dict[str, Any]:
    """Add an endpoint to the view, as an earlier request made it, and return it."""
    metadata = {
        "name": name,
        "namespace": "acme",
        "uid": name,
        "resourceVersion": "1",
        "creationTimestamp": created.isoformat().replace("+00:00", "Z"),
        "annotations": {REQUEST_ANNOTATION: WANTED.digest()},
    }
    spec = {"projectRef": {"name": "billing"}, "url": "https://example.com", "events": ["opened"]}
    body = {"apiVersion": "hookwright.dev/v1alpha1", "kind": "WebhookEndpoint", "metadata": metadata, "spec": spec}
    services.view.endpoints.put(body)
    return body


def test_the_younger_object_is_found_after_the_older_one_was_deleted(services: Services) -> None:
    """The second object of a key has another name; without the first one it is still the one of this key."""
    old, _ = webhook_creation._name(services, WANTED, "signup-17")
    first = put(services, old, NOW - timedelta(days=2))
    young, name = webhook_creation._name(services, WANTED, "signup-17")
    assert young != old
    assert name is None
    put(services, young, NOW)
    services.view.endpoints.remove(first)
    older, name = webhook_creation._name(services, WANTED, "signup-17")
    assert older == young
    assert name is not None
