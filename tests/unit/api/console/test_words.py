"""The words for people."""

import pytest

from hookwright_api.console.words import endpoint_word
from hookwright_api.view.table_records import EndpointRecord


@pytest.mark.parametrize("attempted", [False, True])
def test_an_endpoint_without_an_attempt_is_not_called_a_success(*, attempted: bool) -> None:
    """Somebody who has just made an endpoint reads that it is not tried; later that the last attempt succeeded."""
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": "2030-01-01T00:00:00Z"}
    record = EndpointRecord.of(
        {
            "metadata": {"name": "orders", "namespace": "acme"},
            "spec": {"projectRef": {"name": "billing"}, "url": "https://example.com/", "events": ["delivered"]},
            "status": {
                "conditions": [ready],
                "deliveries": {"lastAttemptTime": "2030-01-01T00:00:00Z"} if attempted else {},
            },
        }
    )
    sentence = endpoint_word(record).sentence
    assert ("not tried yet" in sentence, "last attempt succeeded" in sentence) == (not attempted, attempted)
