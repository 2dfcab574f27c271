"""The words for people."""

from datetime import UTC, datetime

import pytest

from hookwright_api.console.words import endpoint_word, is_tried
from hookwright_crds.resources import WebhookEndpoint


@pytest.mark.parametrize("attempted", [False, True])
def test_an_endpoint_without_an_attempt_is_not_called_a_success(*, attempted: bool) -> None:
    """Somebody who has just made an endpoint reads that it is not tried; later that the last attempt succeeded."""
    endpoint = WebhookEndpoint.model_validate(
        {
            "metadata": {"name": "orders", "namespace": "acme"},
            "spec": {"projectRef": {"name": "billing"}, "url": "https://example.com/", "events": ["delivered"]},
            "status": {"deliveries": {"lastAttemptTime": datetime(2030, 1, 1, tzinfo=UTC)} if attempted else {}},
        }
    )
    sentence = endpoint_word("active", tried=is_tried(endpoint)).sentence
    assert ("not tried yet" in sentence, "last attempt succeeded" in sentence) == (not attempted, attempted)
