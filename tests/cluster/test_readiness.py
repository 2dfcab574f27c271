"""Readiness (/readyz) and intake while the store is unavailable."""

import re

import httpx
import pytest
from support.cluster_actions import Organization, delivered, locked, manifest
from support.polling import eventually

pytestmark = pytest.mark.slow


def test_readiness_tells_of_a_store_that_stays_away_and_the_intake_answers_all_the_while(org: Organization) -> None:
    """The operator is not ready after ten seconds, names no address, and is ready when the store is back."""

    def readiness() -> httpx.Response:
        return org.client.get(f"{org.operator.health_url}/readyz")

    org.apply(manifest("Project", "billing"))
    eventually(
        lambda: org.post('{"type": "delivered", "messageId": "1"}').status_code == 202, "the project accepts events"
    )
    with locked(org.operator):
        refusal = org.post('{"type": "delivered", "messageId": "2"}')
        assert (refusal.status_code, refusal.json()["detail"]) == (503, "the store cannot read or write now")
        assert readiness().status_code == 200, "a short outage removes no pod from its Service"
        eventually(lambda: readiness().status_code == 503, "not ready")
        assert re.fullmatch(r"the store has not answered for \d+ s", readiness().text.strip())
        refusal = org.post('{"type": "delivered", "messageId": "3"}')
        assert (refusal.status_code, refusal.json()["detail"]) == (503, "the store cannot read or write now")
        assert org.client.get(f"{org.operator.health_url}/healthz").status_code == 200
    assert org.send(delivered(4))["accepted"] == 1
    eventually(lambda: readiness().status_code == 200, "ready again")
