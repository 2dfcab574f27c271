"""Routes below /webhookendpoints/{name}: a test of the endpoint, and its signing secret."""

from starlette.requests import Request
from starlette.responses import JSONResponse

from hookwright_operator.intake.asgi import client_of
from hookwright_operator.intake.auth import Access, permit
from hookwright_operator.intake.deps import Deps
from hookwright_operator.registry import Endpoint, Registry
from hookwright_runtime.endpoint_tests import TooManyTestsError
from hookwright_runtime.problems import not_found, too_many, unavailable


def endpoint_of(registry: Registry, request: Request) -> Endpoint:
    """Return the endpoint that the path names.

    Raises:
        ProblemError: 404.
    """
    namespace, name = request.path_params["namespace"], request.path_params["name"]
    endpoint = registry.find(namespace, name)
    if endpoint is None:
        raise not_found(f'WebhookEndpoint "{name}" in namespace "{namespace}"')
    return endpoint


def endpoint_access(request: Request, verb: str, subresource: str) -> Access:
    """Return the permission that a request needs on the endpoint of its path."""
    return Access(verb, "webhookendpoints", subresource, request.path_params["namespace"], request.path_params["name"])


class EndpointRoutes:
    """Routes of one endpoint."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    async def test(self, request: Request) -> JSONResponse:
        """Send one synthetic event now and return its outcome: ``{success, statusCode, error?}``.

        Raises:
            ProblemError: 429, too many tests are in progress.
        """
        access = endpoint_access(request, "create", "test")
        await permit(self._deps.auth, request.headers, access, client_of(request.scope))
        endpoint = self._with_secret(request)
        try:
            with self._deps.tests.one(endpoint.namespace, endpoint.name):
                outcome = await self._deps.tester.test(endpoint)
        except TooManyTestsError as error:
            raise too_many(str(error)) from None
        if outcome.own_fault:
            raise unavailable(f"the test was not sent, the operator lacks resources now: {outcome.own_fault}")
        success = 200 <= outcome.status_code < 300 and not outcome.error
        answer = {"success": success, "statusCode": outcome.status_code}
        return JSONResponse({**answer, "error": outcome.error} if outcome.error else answer)

    async def secret(self, request: Request) -> JSONResponse:
        """Return the newest signing secret: ``{secret}``."""
        access = endpoint_access(request, "get", "secret")
        await permit(self._deps.auth, request.headers, access, client_of(request.scope))
        endpoint = self._with_secret(request)
        return JSONResponse({"secret": endpoint.secrets[0]}, headers={"Cache-Control": "no-store"})

    def _with_secret(self, request: Request) -> Endpoint:
        endpoint = endpoint_of(self._deps.registry, request)
        if not endpoint.secrets:
            raise unavailable(
                f'WebhookEndpoint "{endpoint.name}" has no signing secret yet; the operator is creating it'
            )
        return endpoint
