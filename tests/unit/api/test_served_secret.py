"""The wait for a signing secret that the operator does not serve yet."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from hookwright_api.operator_client import OperatorClient
from hookwright_api.rate_limits import Limiter
from hookwright_api.routes import webhook_secrets
from hookwright_api.routes.webhook_creation import Created, register
from hookwright_api.routes.webhook_secrets import served_secret
from hookwright_api.services import Services
from hookwright_api.settings import ApiSettings
from hookwright_api.view.table_records import EndpointRecord
from hookwright_api.view.view import View
from hookwright_api.webhook_document import merged
from hookwright_crds.documents.webhook_bodies import SigningSecret
from hookwright_runtime.problems import ProblemError, not_found

FIRST = SigningSecret(secret="first", rotation=0, previous_signs_until=None)
OLD = SigningSecret(secret="old", rotation=1, previous_signs_until=None)
NEW = SigningSecret(secret="new", rotation=2, previous_signs_until=None)


class Operator:
    """An operator that answers with each of these secrets in turn, and then fails."""

    def __init__(self, *answers: SigningSecret | None) -> None:
        self.answers = list(answers)
        self.requests = 0

    async def secret(self, _namespace: str, _endpoint: str) -> SigningSecret:
        """Return the next secret, or refuse if it is None."""
        self.requests += 1
        answer = self.answers.pop(0) if self.answers else None
        if answer is None:
            raise not_found("the webhook")
        return answer


def services_with(
    operator: Operator, wait: float, changes: dict[str, Any] | None = None
) -> tuple[Services, EndpointRecord]:
    """Return services whose view has one settled endpoint, changed by a merge patch, and the endpoint."""
    settings, placeholder, view = ApiSettings(create_timeout=wait), cast("Any", None), View()
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1}
    resource = {
        "apiVersion": "hookwright.dev/v1alpha1",
        "kind": "WebhookEndpoint",
        "metadata": {"name": "orders", "namespace": "acme", "uid": "u", "resourceVersion": "1", "generation": 1},
        "spec": {"projectRef": {"name": "billing"}, "url": "https://example.com", "events": ["opened"]},
        "status": {
            "observedGeneration": 1,
            "signingSecretRef": {"name": "orders-signing", "key": "secret"},
            "conditions": [{**ready, "lastTransitionTime": "2026-01-31T12:00:00Z"}],
        },
    }
    record = view.endpoints.put(merged(resource, changes or {}))
    assert record is not None
    client = cast("OperatorClient", operator)
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    return Services(settings, view, placeholder, client, Limiter(settings), placeholder, now=lambda: now), record


async def test_the_delays_grow_to_a_second() -> None:
    """Neither a refusal nor the secret of an earlier rotation ends the wait."""
    operator = Operator(None, OLD, None, None, OLD, OLD, NEW)
    _, record = services_with(operator, 5)
    slept = list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    assert await served_secret(cast("OperatorClient", operator), record.identity, 2, sleep=sleep) == NEW
    assert slept == [0.1, 0.2, 0.4, 0.8, 1, 1]


async def test_a_secret_that_is_there_is_returned_without_a_delay() -> None:
    """A registration accepts each rotation."""
    operator = Operator(OLD, OLD)
    services, record = services_with(operator, 5)
    assert await webhook_secrets._made(services, record.identity, 1) == OLD
    _, secret = await register(services, Created(record, is_new=True, repeatable=True))
    assert (secret, operator.requests) == ("old", 2)


@pytest.mark.parametrize(
    "changes",
    [
        {"spec": {"signing": {"rotation": 1}}},
        {"spec": {"signing": {"secretRef": {"name": "mine"}}}},
        {},
    ],
)
async def test_a_repeated_request_shows_no_later_secret(changes: dict[str, Any]) -> None:
    """A creation shows only the first secret, and a rotation only its own."""
    operator = Operator(NEW if not changes else FIRST, NEW)
    services, record = services_with(operator, 5, changes)
    with pytest.raises(ProblemError, match="was replaced") as error:
        await register(services, Created(record, is_new=False, repeatable=True))
    assert error.value.status == 409
    with pytest.raises(ProblemError, match="was replaced"):
        await webhook_secrets._made(services, record.identity, 1)


async def test_a_repeated_creation_shows_the_first_secret() -> None:
    """A repetition gets the answer of the first request."""
    services, record = services_with(Operator(FIRST), 5)
    assert (await register(services, Created(record, is_new=False, repeatable=True)))[1] == "first"


async def rotation(services: Services, record: EndpointRecord) -> None:
    """Wait for the secret of the second rotation."""
    await webhook_secrets._made(services, record.identity, 2)


async def registration(services: Services, record: EndpointRecord) -> None:
    """Wait for the secret of a new endpoint."""
    await register(services, Created(record, is_new=True, repeatable=True))


@pytest.mark.parametrize("wait", [rotation, registration])
async def test_few_requests_ask_for_a_secret_that_is_late(
    wait: Callable[[Services, EndpointRecord], Awaitable[None]],
) -> None:
    """Within 0.6 s there are requests after 0, 0.1 and 0.3 s, and none after the deadline; before, there were six."""
    operator = Operator()
    services, record = services_with(operator, 0.6)
    with pytest.raises(ProblemError) as error:
        await wait(services, record)
    assert error.value.status == 503
    assert 1 <= operator.requests <= 3
