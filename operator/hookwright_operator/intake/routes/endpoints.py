"""Routes below /webhookendpoints/{name}: a test of the endpoint, and its signing secret."""

from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from hookwright_operator.intake.asgi import client_of
from hookwright_operator.intake.auth import Access, ReviewAuth
from hookwright_operator.registry import Endpoint
from hookwright_operator.services import IntakeServices
from hookwright_runtime.endpoint_tests import TooManyTestsError
from hookwright_runtime.problems import not_found, too_many, unavailable

NAMESPACE: Final = "/v1alpha1/namespaces/{namespace}"
ENDPOINT: Final = NAMESPACE + "/webhookendpoints/{name}"
"""Paths."""


async def permitted_endpoint(
    services: IntakeServices, auth: ReviewAuth, request: Request, verb: str, subresource: str
) -> Endpoint:
    """Return the endpoint that the path names if the caller has the permission ``verb`` on its ``subresource``.

    Raises:
        ProblemError: 401, 403 or 503; 404, there is no such endpoint.
        KubeError: the API server cannot review the token or the permission.
    """
    namespace, name = request.path_params["namespace"], request.path_params["name"]
    access = Access(verb, "webhookendpoints", subresource, namespace, name)
    await auth.permit(request.headers, access, client_of(request.scope))
    endpoint = services.registry.find(namespace, name)
    if endpoint is None:
        raise not_found(f'WebhookEndpoint "{name}" in namespace "{namespace}"')
    return endpoint


class EndpointRoutes:
    """Routes of one endpoint."""

    def __init__(self, services: IntakeServices, auth: ReviewAuth) -> None:
        self._services, self._auth = services, auth

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [Route(f"{ENDPOINT}/test", self.test, methods=["POST"]), Route(f"{ENDPOINT}/secret", self.secret)]

    async def test(self, request: Request) -> JSONResponse:
        """Send one synthetic event now and return its outcome: ``{success, statusCode, error?}``.

        Raises:
            ProblemError: 429, too many tests are in progress.
        """
        endpoint = await self._endpoint_with_secret(request, "create", "test")
        try:
            outcome = await self._services.endpoint_tester.test(endpoint)
        except TooManyTestsError as error:
            raise too_many(str(error)) from None
        if outcome.own_fault:
            raise unavailable(f"the test was not sent, the operator lacks resources now: {outcome.own_fault}")
        success = 200 <= outcome.status_code < 300 and not outcome.error
        answer = {"success": success, "statusCode": outcome.status_code}
        return JSONResponse({**answer, "error": outcome.error} if outcome.error else answer)

    async def secret(self, request: Request) -> JSONResponse:
        """Return the newest signing secret: ``{secret}``."""
        endpoint = await self._endpoint_with_secret(request, "get", "secret")
        return JSONResponse({"secret": endpoint.secrets[0]}, headers={"Cache-Control": "no-store"})

    async def _endpoint_with_secret(self, request: Request, verb: str, subresource: str) -> Endpoint:
        endpoint = await permitted_endpoint(self._services, self._auth, request, verb, subresource)
        if not endpoint.secrets:
            raise unavailable(
                f'WebhookEndpoint "{endpoint.name}" has no signing secret yet; the operator is creating it'
            )
        return endpoint
