"""CORS of the real process: off by default, and for the allowed origins only."""

from collections.abc import Iterator

import httpx
import pytest
from integration.api.conftest import PROXY, Organizations, StartApi
from support.api_processes import LIFTED, Organization, problem_of, running

from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster

CONSOLE = "https://console.example.com"
OTHER = "https://other.example.com"
ALLOWED = {"HOOKWRIGHT_CORS_ORIGINS": f"{CONSOLE}, http://localhost:5173"}
PREFLIGHT = {
    "Origin": CONSOLE,
    "Access-Control-Request-Method": "PATCH",
    "Access-Control-Request-Headers": "authorization,content-type,if-match,idempotency-key,x-service-key,x-request-id",
}


@pytest.fixture(scope="module")
def browser(
    control_plane: Cluster, operator: OperatorProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    """Yield a client of an API that allows two origins."""
    api = ApiProcess(control_plane, tmp_path_factory.mktemp("api"), operator.intake_url, LIFTED | ALLOWED)
    with running(api), httpx.Client(base_url=api.url, trust_env=False, timeout=30.0) as made:
        yield made


def cors_headers(answer: httpx.Response) -> dict[str, str]:
    """Return the CORS headers of an answer."""
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}


def test_without_the_setting_no_answer_has_a_cors_header(client: httpx.Client) -> None:
    """OPTIONS stays the list of methods."""
    told = [
        client.options("/v1/webhooks", headers=PREFLIGHT),
        client.get("/v1/webhooks", headers={"Origin": CONSOLE}),
        client.get("/openapi.json", headers={"Origin": CONSOLE}),
    ]
    assert [answer.status_code for answer in told] == [204, 401, 200]
    for answer in told:
        assert cors_headers(answer) == {}
        assert "vary" not in answer.headers


@pytest.mark.parametrize("origin", [CONSOLE, "http://localhost:5173"])
def test_a_preflight_of_an_allowed_origin_names_methods_and_headers(browser: httpx.Client, origin: str) -> None:
    """No credential is needed, and credentials of the browser are not allowed."""
    answer = browser.options("/v1/webhooks/wh-1", headers={**PREFLIGHT, "Origin": origin})
    assert answer.status_code == 200
    told = cors_headers(answer)
    assert told["access-control-allow-origin"] == origin
    assert set(told["access-control-allow-methods"].split(", ")) == {
        "GET",
        "HEAD",
        "POST",
        "PATCH",
        "DELETE",
        "OPTIONS",
    }
    allowed = {name.lower() for name in told["access-control-allow-headers"].split(", ")}
    assert set(PREFLIGHT["Access-Control-Request-Headers"].split(",")) <= allowed
    assert "access-control-allow-credentials" not in told
    varying = answer.headers["vary"].split(", ")
    assert sorted(varying) == ["Access-Control-Request-Headers", "Access-Control-Request-Method", "Origin"]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"Origin": OTHER}, "origin"),
        ({"Origin": "null"}, "origin"),
        ({"Origin": f"{CONSOLE}.attacker.example"}, "origin"),
        ({"Access-Control-Request-Method": "PUT"}, "method"),
        ({"Access-Control-Request-Headers": "x-other"}, "headers"),
    ],
)
def test_a_refused_preflight_is_a_problem_document(browser: httpx.Client, changed: dict[str, str], named: str) -> None:
    """A developer reads what is not allowed; another origin is not repeated."""
    answer = browser.options("/v1/webhooks", headers={**PREFLIGHT, **changed})
    assert problem_of(answer, 403)["detail"].endswith(f": {named}")
    assert (answer.headers.get("access-control-allow-origin") == CONSOLE) is (named != "origin")


def test_answers_and_refusals_can_be_read_by_the_page(browser: httpx.Client, organizations: Organizations) -> None:
    """200, 401, 404, 422 and a refusal of the HTTP server have the headers for the allowed origin alone."""
    acme: Organization = organizations.new("acme", browser)
    acme.project()
    key = acme.service_key()
    for path, headers, status in (
        ("/v1/webhooks", key, 200),
        ("/v1/webhooks", {}, 401),
        ("/nowhere", {}, 404),
        ("/v1/webhooks?limit=0", key, 422),
        ("/v1/webhooks?cursor=" + "x" * 9000, {}, 414),
    ):
        answer = browser.get(path, headers={**headers, "Origin": CONSOLE})
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == CONSOLE, status
        exposed = {name.lower() for name in answer.headers["access-control-expose-headers"].split(", ")}
        assert {"retry-after", "etag", "location", "x-request-id", "deprecation", "sunset", "link"} <= exposed
        assert {"ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-reset"} <= exposed
        assert answer.headers["vary"] == "Origin"
        other = browser.get(path, headers={**headers, "Origin": OTHER})
        assert other.status_code == status
        assert "access-control-allow-origin" not in other.headers


def test_a_preflight_counts_in_the_limit_of_its_address(start_api: StartApi) -> None:
    """The 429 has the headers too, so the page can read Retry-After."""
    _, client = start_api(PROXY | ALLOWED | {"HOOKWRIGHT_RATE_LIMIT_IP": "2"})
    address = {"X-Forwarded-For": "198.51.100.7"}
    first = client.options("/v1/webhooks", headers=PREFLIGHT | address)
    assert (first.status_code, first.headers["x-ratelimit-remaining"]) == (200, "1")
    assert client.options("/v1/webhooks", headers=PREFLIGHT | address).status_code == 200
    for refused in (
        client.options("/v1/webhooks", headers=PREFLIGHT | address),
        client.get("/v1/webhooks", headers={"Origin": CONSOLE} | address),
    ):
        problem_of(refused, 429)
        assert refused.headers["access-control-allow-origin"] == CONSOLE
        assert "Retry-After" in refused.headers["access-control-expose-headers"]
