"""A test of an endpoint, and its signing secret."""

from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from hookwright_crds.base import format_timestamp
from hookwright_crds.conditions import CREDENTIAL_FAULTS
from hookwright_crds.documents.event_bodies import EVENTS_BODY_LIMIT
from hookwright_crds.documents.webhook_bodies import SigningSecret, TestAnswer
from hookwright_crds.operations import Right
from hookwright_operator.ids import trial_id
from hookwright_operator.intake.auth import Producer
from hookwright_operator.intake.context import IntakeContext, check_not_expired, hindrance
from hookwright_operator.intake.parsing import parse_test
from hookwright_operator.registry import Endpoint
from hookwright_runtime.problems import ProblemError, unavailable
from hookwright_runtime.request_body import parsing_weight


async def send_test(intake: IntakeContext, request: Request, right: Right) -> TestAnswer:
    """Send one event, ``{type?, payload?}``, now.

    Raises:
        ProblemError: 400, 413 or 422, the body is not a test; 409, the endpoint has expired, has no valid secret,
            lacks a credential, or consumers take its messages; 429 or 503, too many tests are in progress.
    """
    endpoint, _ = await _endpoint_with_secret(intake, request, right)
    check_not_expired(endpoint)
    if endpoint.block_reason in CREDENTIAL_FAULTS:
        raise ProblemError(409, hindrance(endpoint))
    if endpoint.pulled:
        raise ProblemError(
            409,
            f'webhook "{endpoint.name}" has no url for a test; send an event, and take its message',
        )
    body = await intake.body(request, EVENTS_BODY_LIMIT)
    with await intake.parsing.acquire(f'namespace "{endpoint.namespace}"', parsing_weight(body)):
        event = parse_test(body, trial_id(), intake.services.registry.event_types(endpoint.namespace))
    outcome, delivery_id = await intake.services.endpoint_tester.test(endpoint, event)
    if outcome.own_fault:
        raise unavailable(f"the test was not sent: {outcome.error}")
    success = 200 <= outcome.status_code < 300 and not outcome.error
    if success:
        intake.services.events.reporter.resume(endpoint)
    optional: dict[str, Any] = {"error": outcome.error, "delivery_id": delivery_id}
    present = {name: value for name, value in optional.items() if value}
    return TestAnswer(success=success, statusCode=outcome.status_code, **present)


async def read_secret(intake: IntakeContext, request: Request, right: Right) -> Response:
    """Return the newest signing secret."""
    endpoint, caller = await _endpoint_with_secret(intake, request, right)
    intake.audit(request, "secret.read", caller, endpoint)
    until = endpoint.previous_until
    overlaps = until is not None and until > datetime.now(UTC)
    answer = SigningSecret(
        secret=endpoint.secrets[0],
        rotation=endpoint.rotation,
        previous_signs_until=format_timestamp(until) if until is not None and overlaps else None,
    )
    return Response(answer.json_bytes(), media_type="application/json", headers={"Cache-Control": "no-store"})


async def _endpoint_with_secret(intake: IntakeContext, request: Request, right: Right) -> tuple[Endpoint, Producer]:
    endpoint, caller = await intake.endpoint(request, right)
    if not endpoint.secrets and endpoint.block_reason:
        # The tenant must change something first, so this is no fault of the installation.
        raise ProblemError(409, hindrance(endpoint))
    if not endpoint.secrets:
        raise unavailable(f'WebhookEndpoint "{endpoint.name}" has no signing secret yet; the operator is creating it')
    return endpoint, caller
