"""The parts that every answer has, tested with the application without a cluster."""

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from prometheus_client import REGISTRY

from hookwright_api.app import assemble
from hookwright_api.http.request_checks import GuardedRoute
from hookwright_api.rate_limits import Limiter
from hookwright_api.routes import routers
from hookwright_api.services import Services
from hookwright_api.settings import ApiSettings
from hookwright_api.view.view import View
from hookwright_runtime.connections import ConnectionBounds
from hookwright_runtime.server import Server


class ReadyView(View):
    """A complete view without objects."""

    ready = True


@pytest.fixture(scope="module")
def assembled() -> FastAPI:
    """Return the application, with a route that fails, and one that does not end."""
    new_app = assemble(ApiSettings())

    @new_app.get("/v1/endless")
    async def endless() -> None:
        await asyncio.Event().wait()

    @new_app.get("/v1/broken")
    async def broken() -> None:
        raise RuntimeError("the secret is whsec_abc")

    return new_app


@pytest.fixture
def app(assembled: FastAPI) -> FastAPI:
    """Return the application with new services, which have counted no request."""
    settings, placeholder = ApiSettings(), cast("Any", None)
    assembled.state.services = Services(
        settings=settings,
        view=ReadyView(),
        kube=placeholder,
        operator=placeholder,
        limiter=Limiter(settings),
        key_use=placeholder,
        now=lambda: datetime.now(UTC),
    )
    return assembled


@pytest.fixture
def client(app: FastAPI) -> httpx.AsyncClient:
    """Return a client of the application."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://api")


async def test_an_unexpected_fault_is_a_500_that_leaks_nothing_and_leads_to_the_log(
    client: httpx.AsyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log entry with the traceback has the trace id of the answer."""
    answer = await client.get("/v1/broken")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-ratelimit-limit"] == "100"
    problem = answer.json()
    assert "whsec" not in answer.text
    assert "RuntimeError" not in answer.text
    assert problem["trace_id"] in problem["detail"]
    output = capsys.readouterr()
    assert problem["trace_id"] in output.out + output.err


async def test_a_request_that_the_end_of_the_grace_cuts_off_is_a_503(app: FastAPI) -> None:
    """A client repeats it, and the metrics count no fault of the API."""
    server = await Server.start(app, host="127.0.0.1", port=0, bounds=ConnectionBounds(total=2, per_address=2), grace=0)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client:
        request = asyncio.create_task(client.get("/v1/endless"))
        await asyncio.sleep(0.3)  # until the request is under way; no outside sign shows it
        await server.stop()
        answer = await request
    assert (answer.status_code, answer.json()["detail"]) == (503, "the API is stopping")
    assert answer.headers["retry-after"]


async def test_a_refusal_by_the_limit_of_an_address_has_its_route_in_the_metrics(client: httpx.AsyncClient) -> None:
    """The address is counted before the routing; without the route nobody sees which clients are refused."""
    path = "/v1/webhooks/some-webhook/statistics"
    statuses = [(await client.get(path)).status_code for _ in range(101)]
    assert statuses[-1] == 429
    labels = {"route": "/v1/webhooks/{id}/statistics", "method": "GET", "status": "429"}
    assert REGISTRY.get_sample_value("hookwright_api_requests_total", labels) == statuses.count(429)


async def test_the_id_of_a_request_is_the_callers_or_a_new_one(client: httpx.AsyncClient) -> None:
    """Refusals and errors have an id too; an id that is unsafe for logs is replaced."""
    for path in ("/v1/broken", "/v1/webhooks", "/nowhere"):
        answer = await client.get(path, headers={"X-Request-Id": "support-case-7"})
        assert answer.headers["x-request-id"] == "support-case-7"
    request_ids = [
        (await client.get("/nowhere", headers={"X-Request-Id": "a b"})).headers["x-request-id"] for _ in range(2)
    ]
    assert len(set(request_ids)) == 2
    assert all(len(request_id) == 32 for request_id in request_ids)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/v1/webhooks/", 404),
        ("PUT", "/v1/webhooks", 405),
        ("GET", "/v1/webhooks", 401),
    ],
)
async def test_the_frameworks_refusals_are_problem_documents_too(
    client: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    """FastAPI's 404 and 405 have the common form, and 405 lists the allowed methods."""
    answer = await client.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert answer.headers["x-ratelimit-remaining"]
    assert answer.headers["cache-control" if path.startswith("/v1") else "x-content-type-options"]
    if status == 405:
        assert answer.headers["allow"]


async def test_head_answers_like_get_without_a_body(client: httpx.AsyncClient) -> None:
    """Status and headers are those of GET; a path without GET refuses HEAD."""
    for path, status in (("/openapi.json", 200), ("/docs", 200), ("/v1/webhooks", 401), ("/v1/events", 405)):
        answer, head = await client.get(path), await client.head(path)
        assert (head.status_code, head.content) == (status, b"")
        for name in ("content-type", "content-length", "ratelimit-policy"):
            assert head.headers[name] == answer.headers[name]


@pytest.mark.parametrize(
    ("path", "status", "allowed"),
    [
        ("/v1/webhooks", 204, "GET, HEAD, OPTIONS, POST"),
        ("/v1/webhooks/wh-1", 204, "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("/v1/events", 204, "OPTIONS, POST"),
        ("/docs", 204, "GET, HEAD, OPTIONS"),
        ("/nowhere", 404, None),
    ],
)
async def test_options_lists_the_methods_of_a_path(
    client: httpx.AsyncClient, path: str, status: int, allowed: str | None
) -> None:
    """No credential is needed, the request counts in the limit of its address, and other origins get no CORS header."""
    preflight = {"Origin": "https://other.example.com", "Access-Control-Request-Method": "GET"}
    answer = await client.options(path, headers=preflight)
    assert not [name for name in answer.headers if name.startswith("access-control")]
    methods = answer.headers.get("allow")
    assert (answer.status_code, methods and sorted(methods.split(", "))) == (status, allowed and allowed.split(", "))
    assert answer.headers["ratelimit-policy"] == '"ip";q=100;w=60'
    assert answer.headers["ratelimit"].startswith('"ip";r=99;t=')


async def test_an_anonymous_caller_is_not_told_what_is_wrong_with_a_body(client: httpx.AsyncClient) -> None:
    """The credential is required before the body is read."""
    for content in (b"{", b"{}", b"x" * 300_000):
        answer = await client.post("/v1/webhooks", content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code == 401


async def test_login_is_a_503_while_the_operator_has_made_no_session_key(client: httpx.AsyncClient) -> None:
    """Without a session key no session can be created."""
    answer = await client.post("/v1/auth/login", json={"email": "a@b.example", "password": "x"})
    assert answer.status_code == 503
    assert answer.headers["retry-after"]


async def test_a_wrong_login_body_repeats_nothing_of_it(client: httpx.AsyncClient) -> None:
    """The body may contain a password."""
    answer = await client.post("/v1/auth/login", json={"email": "ada", "password": ["hunter2"]})
    assert answer.status_code == 422
    assert "hunter2" not in answer.text
    assert {error["field"] for error in answer.json()["errors"]} == {"email", "password"}


def test_every_route_declares_its_permission(app: FastAPI) -> None:
    """A route without a declaration cannot be created, and only the description and its page are outside of /v1."""
    every = [route for router in routers() for route in router.routes]
    guarded_routes = [route for route in every if isinstance(route, GuardedRoute)]
    assert guarded_routes == every
    assert [route.path for route in guarded_routes if route.permission.open] == ["/v1/auth/login"]
    paths = {path for route in app.routes if not (path := getattr(route, "path", "")).startswith("/console")} - {""}
    assert paths == {
        "/openapi.json",
        "/docs",
        "/docs/swagger-ui-bundle.js",
        "/docs/swagger-ui.css",
        "/v1/broken",
        "/v1/endless",
    }
    undeclared = APIRouter(route_class=GuardedRoute)
    with pytest.raises(TypeError, match="declare the permission of endpoint with @needs"):

        @undeclared.get("/v1/new")
        async def endpoint() -> None:
            """Do nothing."""


def test_the_description_shows_the_role_and_the_scope_of_each_operation(app: FastAPI) -> None:
    """Extensions name them, and the 403 repeats them in words."""
    paths = app.openapi()["paths"]
    list_operation, create_operation = paths["/v1/webhooks"]["get"], paths["/v1/projects/{project}/keys"]["post"]
    assert (list_operation["x-required-scope"], list_operation["x-required-role"]) == ("read", "viewer")
    assert create_operation["x-required-role"] == "admin"
    assert "x-required-scope" not in create_operation
    forbidden = list_operation["responses"]["403"]["description"]
    assert forbidden == "The key lacks the scope read, or the session's user lacks the role viewer."


def test_every_operation_tells_its_credentials_its_refusals_and_the_rate_headers(app: FastAPI) -> None:
    """The description is complete."""
    document = app.openapi()
    assert set(document["components"]["securitySchemes"]) == {"ServiceKey", "Session"}
    assert not [name for name in document["components"]["schemas"] if "__" in name], "two documents have one name"
    operations = [
        (path, operation)
        for path, item in document["paths"].items()
        if path not in {"/v1/broken", "/v1/endless"}
        for operation in item.values()
    ]
    assert len(operations) == 36
    for path, operation in operations:
        assert operation["operationId"]
        assert operation["description"]
        assert bool(operation["security"]) is (path != "/v1/auth/login")
        assert {"401", "422", "429", "500", "503"} <= set(operation["responses"])
        for status, response in operation["responses"].items():
            assert {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} <= set(response["headers"])
            if int(status) >= 400:
                assert list(response["content"]) == ["application/problem+json"]
