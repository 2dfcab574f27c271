"""Idempotency keys: a stored answer, which has a signing secret, belongs to the credential that sent the request."""

import httpx
import pytest
from integration.api import conftest as shared
from support.api_processes import Organization, problem_of

control_plane, operator = shared.control_plane, shared.operator
api, client = shared.api, shared.client
organizations, acme = shared.organizations, shared.acme

BODY = {"url": "https://example.com/hooks", "events": ["delivered"]}
GUESSED = {"Idempotency-Key": "1"}


def register(client: httpx.Client, headers: dict[str, str], **params: str) -> httpx.Response:
    """Register the endpoint of `BODY` under the guessed Idempotency-Key."""
    return client.post("/v1/webhooks", json=BODY, headers={**headers, **GUESSED}, params=params)


@pytest.mark.parametrize("attacker", ["another API key", "a session"])
def test_another_credential_that_guesses_the_key_does_not_get_the_secret(
    acme: Organization, client: httpx.Client, attacker: str
) -> None:
    """Another credential of the project that knows method, path and body makes another webhook."""
    victim = acme.service_key()
    registration = register(client, victim)
    assert registration.status_code == 201, registration.text
    if attacker == "a session":
        second = register(client, acme.session(), project="billing")
    else:
        second = register(client, acme.service_key())
    assert second.status_code == 201, second.text
    assert second.json()["secret"] != registration.json()["secret"]
    assert second.json()["id"] != registration.json()["id"]
    repetitions = register(client, victim)
    assert (repetitions.status_code, repetitions.json()) == (201, registration.json())


def test_a_guessed_key_cannot_be_taken_before_its_owner_uses_it(acme: Organization, client: httpx.Client) -> None:
    """A request that an attacker sends first neither blocks nor answers the victim's own."""
    assert register(client, acme.service_key()).status_code == 201
    second = {**BODY, "url": "https://example.com/elsewhere"}
    victim = {**acme.service_key(), **GUESSED}
    answer = client.post("/v1/webhooks", json=second, headers=victim)
    assert (answer.status_code, answer.json()["url"]) == (201, second["url"])


def test_the_same_credential_with_another_body_or_path_gets_no_stored_answer(
    acme: Organization, client: httpx.Client
) -> None:
    """Another body is a 422; the same key at another path makes something else."""
    key, session = acme.service_key(), acme.session()
    registration = register(client, key)
    changed_body = {**BODY, "events": ["bounced"]}
    problem_of(client.post("/v1/webhooks", json=changed_body, headers={**key, **GUESSED}), 422)
    assert register(client, session, project="billing").status_code == 201
    answer = client.post("/v1/projects/billing/keys", json={"name": "a"}, headers={**session, **GUESSED})
    assert answer.status_code == 201, answer.text
    assert registration.json()["secret"] not in answer.text
