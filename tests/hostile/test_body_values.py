"""Bodies with very many values: they are refused as a whole, before each value is decoded and checked."""

import json

import pytest
from integration.api import conftest as shared
from support.api_processes import Organization, problem_of

from hookwright_api.http.guarded_route import MOST_VALUES

operator, api, client = shared.operator, shared.api, shared.client
organizations, acme = shared.organizations, shared.acme

MANY = MOST_VALUES + 1
ONES = [1] * MANY
NAMES = {f"x{number}": 1.5 for number in range(MANY)}
TEXTS = dict.fromkeys(NAMES, "!")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/auth/login", NAMES),
        ("/v1/webhooks", {"url": "https://example.com", "events": ONES}),
        ("/v1/webhooks", {"url": "https://example.com", "events": ["*"], "labels": TEXTS}),
        ("/v1/webhooks", {"url": "https://example.com", "events": ["*"], "headers": TEXTS}),
        ("/v1/webhooks/wh-1/messages/ack", {"ids": ONES}),
    ],
    ids=["login", "events", "labels", "headers", "ids"],
)
def test_a_body_with_very_many_values_gets_one_fault(acme: Organization, path: str, body: object) -> None:
    """The answer names the bound; to check each value would keep the event loop of all tenants busy."""
    headers = {"Content-Type": "application/json"} | ({} if path == "/v1/auth/login" else acme.service_key())
    answer = acme.client.post(path, content=json.dumps(body), headers=headers)
    problem = problem_of(answer, 422)
    assert problem["detail"] == f"the body has more than {MOST_VALUES} values; nothing was done"
    assert "errors" not in problem
