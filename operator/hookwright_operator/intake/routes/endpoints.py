"""Routes below /webhookendpoints/{name}: a test of the endpoint, and its signing secret."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from hookwright_crds.base import format_timestamp
from hookwright_crds.request_limits import EVENTS_BODY_LIMIT
from hookwright_operator.ids import trial_id
from hookwright_operator.intake.asgi import client_of, headers_of
from hookwright_operator.intake.auth import Access, Producer, ReviewAuth
from hookwright_operator.intake.parsing import parse_test
from hookwright_operator.registry import Endpoint
from hookwright_operator.services import IntakeServices
from hookwright_runtime.places import Places
from hookwright_runtime.problems import ProblemError, not_found, unavailable
from hookwright_runtime.request_body import Bodies, parsing_weight

NAMESPACE: Final = "/v1alpha1/namespaces/{namespace}"
ENDPOINT: Final = NAMESPACE + "/webhookendpoints/{name}"
"""Paths."""


async def permitted_endpoint(
    services: IntakeServices, auth: ReviewAuth, request: Request, verb: str, subresource: str
) -> tuple[Endpoint, Producer]:
    """Return the endpoint of the path, and the caller, if it has the permission ``verb`` on the ``subresource``.

    Raises:
        ProblemError: 401, 403 or 503; 404, there is no such endpoint.
        KubeError: the API server cannot review the token or the permission.
    """
    namespace, name = request.path_params["namespace"], request.path_params["name"]
    access = Access(verb, "webhookendpoints", subresource, namespace, name)
    caller = await auth.permit(request.headers, access, client_of(request.scope))
    endpoint = services.registry.find(namespace, name)
    if endpoint is None:
        raise not_found(f'WebhookEndpoint "{name}" in namespace "{namespace}"')
    return endpoint, caller


def audit(
    services: IntakeServices,
    request: Request,
    action: str,
    caller: Producer,
    about: Endpoint,
    *,
    target: str = "",
    deliveries: Sequence[str] | None = None,
) -> None:
    """Log what a caller did with an endpoint, with an object of it that ``target`` names, or with messages of it."""
    services.audit.record(
        action,
        actor=caller.username,
        client=client_of(request.scope),
        organization=about.namespace,
        project=about.project,
        target=target or about.name,
        deliveries=deliveries,
    )


def hindrance(endpoint: Endpoint) -> str:
    """Return why nothing may be sent to an endpoint."""
    if endpoint.expired:
        return f'webhook "{endpoint.name}" has expired; set a later time, or delete it'
    if endpoint.suspend:
        return f'webhook "{endpoint.name}" is suspended; resume it'
    reason = f" ({endpoint.blocked})" if endpoint.blocked else ""
    return f'webhook "{endpoint.name}" is not ready{reason}; its conditions have the cause'


def check_not_expired(endpoint: Endpoint) -> None:
    """Return if an endpoint may get deliveries, at once or later.

    Raises:
        ProblemError: 409, it has expired.
    """
    if endpoint.expired:
        raise ProblemError(409, hindrance(endpoint))


class EndpointRoutes:
    """Routes of one endpoint."""

    def __init__(self, services: IntakeServices, auth: ReviewAuth, bodies: Bodies, parsing: Places) -> None:
        self._services, self._auth = services, auth
        self._bodies, self._parsing = bodies, parsing

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [Route(f"{ENDPOINT}/test", self.test, methods=["POST"]), Route(f"{ENDPOINT}/secret", self.secret)]

    async def test(self, request: Request) -> JSONResponse:
        """Send one event, ``{type?, payload?}``, now: ``{success, statusCode, error?, delivery_id?}``.

        Raises:
            ProblemError: 400, 413 or 422, the body is not a test; 409, the endpoint has expired, has no valid secret,
                or consumers take its messages; 429 or 503, too many tests are in progress.
        """
        endpoint, _ = await self._endpoint_with_secret(request, "create", "test")
        check_not_expired(endpoint)
        if endpoint.pulled:
            raise ProblemError(
                409,
                f'webhook "{endpoint.name}" has no url for a test; send an event, and take its message',
            )
        holder = f'namespace "{endpoint.namespace}"'
        body = await self._bodies.read(request.receive, headers_of(request.scope), holder, limit=EVENTS_BODY_LIMIT)
        with await self._parsing.acquire(holder, parsing_weight(body)):
            event = parse_test(body, trial_id())
        outcome, recorded = await self._services.endpoint_tester.test(endpoint, event)
        if outcome.own_fault:
            raise unavailable(f"the test was not sent, the operator lacks resources now: {outcome.own_fault}")
        success = 200 <= outcome.status_code < 300 and not outcome.error
        answer = {"success": success, "statusCode": outcome.status_code}
        reason = {"error": outcome.error} if outcome.error else {}
        return JSONResponse({**answer, **reason, **({"delivery_id": recorded} if recorded else {})})

    async def secret(self, request: Request) -> JSONResponse:
        """Return the newest signing secret: ``{secret, rotation, previous_signs_until}``."""
        endpoint, caller = await self._endpoint_with_secret(request, "get", "secret")
        audit(self._services, request, "secret.read", caller, endpoint)
        until = endpoint.previous_until
        overlaps = until is not None and until > datetime.now(UTC)
        answer = {
            "secret": endpoint.secrets[0],
            "rotation": endpoint.rotation,
            "previous_signs_until": format_timestamp(until) if until is not None and overlaps else None,
        }
        return JSONResponse(answer, headers={"Cache-Control": "no-store"})

    async def _endpoint_with_secret(self, request: Request, verb: str, subresource: str) -> tuple[Endpoint, Producer]:
        endpoint, caller = await permitted_endpoint(self._services, self._auth, request, verb, subresource)
        if not endpoint.secrets and endpoint.blocked:
            # The tenant must change something first, so this is no fault of the installation.
            raise ProblemError(409, hindrance(endpoint))
        if not endpoint.secrets:
            raise unavailable(
                f'WebhookEndpoint "{endpoint.name}" has no signing secret yet; the operator is creating it'
            )
        return endpoint, caller
