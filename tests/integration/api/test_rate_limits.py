"""Rate limits as callers see them, with the promised values."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx
import pytest
from integration.api.conftest import PROXY, Organizations, StartApi
from support import local_server
from support.api_processes import problem_of
from support.local_server import LocalServer
from support.polling import eventually

from hookwright_api import rate_limits
from hookwright_api.console.session_cookie import COOKIE
from hookwright_api.console.visit import form_token_of
from hookwright_api.rate_limits import Limiter, Scope
from hookwright_api.settings import ApiSettings
from hookwright_dev.cluster.installation import ApiProcess

HEADERS = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "ratelimit", "ratelimit-policy")


def from_ip(address: str) -> dict[str, str]:
    """Return the header with which the trusted proxy, here the test, gives the client's address."""
    return {"X-Forwarded-For": address}


def numbers(answer: httpx.Response) -> tuple[int, int, int]:
    """Return limit, remaining and reset of an answer."""
    limit, remaining, reset = (int(answer.headers[name]) for name in HEADERS[:3])
    return limit, remaining, reset


@pytest.fixture(scope="module")
def limited(start_api: StartApi) -> tuple[ApiProcess, httpx.Client]:
    """Return an API with the default limits. Each test has addresses of its own."""
    return start_api(PROXY)


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """Yield a server that stores nothing on disk."""
    with local_server.redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@dataclass(frozen=True, slots=True)
class Replica:
    """An API whose counters are in Redis."""

    api: ApiProcess
    client: httpx.Client

    def statuses(self, address: str, number: int) -> list[int]:
        """Send requests from an address and return their statuses."""
        return [self.client.get("/v1/webhooks", headers=from_ip(address)).status_code for _ in range(number)]

    def sees_redis(self) -> bool:
        """Return whether the metric says that Redis answers."""
        return self.api.metric("hookwright_rate_limit_storage_available") == 1


@pytest.fixture(scope="module")
def replicas(start_api: StartApi, redis_server: LocalServer) -> tuple[Replica, Replica]:
    """Return a replica that refuses requests while Redis is away, and one that then counts by itself."""
    urls = {"false": f"redis://{redis_server.address}/0", "true": f"valkey://{redis_server.address}/0"}
    closed_replica, open_replica = (
        Replica(*start_api({**PROXY, "HOOKWRIGHT_RATE_LIMIT_URL": url, "HOOKWRIGHT_RATE_LIMIT_FAIL_OPEN": fail_open}))
        for fail_open, url in urls.items()
    )
    return closed_replica, open_replica


def test_the_101st_request_of_an_address_within_a_minute_is_refused(
    limited: tuple[ApiProcess, httpx.Client],
) -> None:
    """100 requests pass with any answer; the next gets a 429 with all headers; another address is not affected."""
    api, client = limited
    for number in range(100):
        answer = client.get("/v1/webhooks", headers=from_ip("198.51.100.7"))
        problem_of(answer, 401)
        assert numbers(answer)[:2] == (100, 99 - number)
    start = time.time()
    refusal = client.get("/v1/webhooks", headers=from_ip("198.51.100.7"))
    end = time.time()
    problem_of(refusal, 429)
    limit, remaining, reset = numbers(refusal)
    assert (limit, remaining) == (100, 0)
    wait = int(refusal.headers["retry-after"])
    assert 0 < wait <= 60
    assert start - 1 <= reset - wait <= end + 1
    assert client.get("/v1/webhooks", headers=from_ip("198.51.100.8")).status_code == 401
    assert client.get("/openapi.json", headers=from_ip("198.51.100.7")).status_code == 429
    assert api.metric("hookwright_rate_limit_rejections_total", scope="ip") == 2
    for _ in range(150):
        assert httpx.get(f"{api.health_url}/healthz", trust_env=False, timeout=30.0).status_code == 200


@pytest.mark.slow
def test_the_1001st_request_of_an_organization_is_refused_whatever_project_or_address_it_comes_through(
    limited: tuple[ApiProcess, httpx.Client], organizations: Organizations
) -> None:
    """Two projects and a thousand addresses share one count; another organization is not affected."""
    acme, rival = organizations.new("acme"), organizations.new("rival")
    keys = [acme.service_key(acme.project(project)) for project in ("billing", "shipping")]
    neighbour = rival.service_key(rival.project())
    # This API has not counted the requests above, because another one answered them.
    _, client = limited
    eventually(
        lambda: client.get("/v1/projects", headers={**neighbour, **from_ip("10.3.0.2")}).status_code == 200, "last key"
    )

    def ask(number: int) -> int:
        headers = {**keys[number % 2], **from_ip(f"10.2.{number // 250}.{number % 250}")}
        return client.get("/v1/webhooks", headers=headers).status_code

    with ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(ask, range(1000)))
    assert set(statuses) == {200}
    for key in keys:
        refusal = client.get("/v1/webhooks", headers={**key, **from_ip("10.3.0.1")})
        problem_of(refusal, 429)
        assert numbers(refusal)[:2] == (1000, 0)
        assert refusal.headers["retry-after"]
    assert client.get("/v1/webhooks", headers={**neighbour, **from_ip("10.3.0.2")}).status_code == 200


@pytest.mark.slow
def test_every_answer_carries_the_headers_of_the_nearer_limit(
    start_api: StartApi, organizations: Organizations
) -> None:
    """Successes and refusals have headers; first the address has the nearer limit, then the organization."""
    settings = {**PROXY, "HOOKWRIGHT_RATE_LIMIT_IP": "1000", "HOOKWRIGHT_RATE_LIMIT_ORGANIZATION": "500"}
    _, client = start_api(settings)
    acme = organizations.new("acme", client)
    acme.project()
    key = acme.service_key()
    json_type = {"Content-Type": "application/json"}
    start = time.time()
    answers = {
        200: client.get("/v1/webhooks", headers=key),
        400: client.post("/v1/webhooks", content=b"{", headers={**key, **json_type}),
        401: client.get("/v1/webhooks"),
        403: client.get("/v1/auth/me", headers=key),
        404: client.get("/nowhere"),
        405: client.put("/v1/webhooks", headers=key),
        413: client.post("/v1/webhooks", content=b" " * 300_000, headers={**key, **json_type}),
        415: client.post("/v1/webhooks", content=b"{}", headers={**key, "Content-Type": "text/plain"}),
        422: client.post("/v1/webhooks", json={}, headers=key),
    }
    for status, answer in answers.items():
        assert answer.status_code == status, answer.text
        limit, remaining, reset = numbers(answer)
        assert limit == (500 if status in (200, 400, 403, 413, 415, 422) else 1000)
        assert 0 < remaining < limit
        assert start < reset < time.time() + 62
    token = acme.session()["Authorization"].removeprefix("Bearer ")
    before = numbers(client.get("/v1/webhooks", headers=key))[1]
    form = {"form_token": form_token_of(token), "delivery": ["dlv_1", "dlv_2", "dlv_3"]}
    headers = {"Cookie": f"{COOKIE}={token}", "Sec-Fetch-Site": "same-origin"}
    answer = client.post("/console/search/again", data=form, headers=headers)
    assert "0 of 3 deliveries are sent again" in answer.text
    assert before - numbers(answer)[1] == 3, "each row that the console sends again is a request"
    assert answer.headers["ratelimit"].count("organization") == 1


@pytest.mark.slow
def test_two_replicas_on_one_redis_share_their_counts(replicas: tuple[Replica, Replica]) -> None:
    """After 60 requests to one and 40 to the other, both refuse the next; a URL with valkey:// is the same server."""
    closed_replica, open_replica = replicas
    assert set(closed_replica.statuses("198.51.100.7", 60)) == {401}
    assert set(open_replica.statuses("198.51.100.7", 39)) == {401}
    last = open_replica.client.get("/v1/webhooks", headers=from_ip("198.51.100.7"))
    assert last.status_code == 401
    assert numbers(last)[:2] == (100, 0)
    for replica in replicas:
        problem_of(replica.client.get("/v1/webhooks", headers=from_ip("198.51.100.7")), 429)
        assert replica.statuses("198.51.100.8", 1) == [401]


def test_while_redis_is_away_a_closed_installation_answers_503_and_an_open_one_counts_by_itself(
    replicas: tuple[Replica, Replica], redis_server: LocalServer
) -> None:
    """The refusal is clear and quick, a metric shows the outage, and both use Redis again without a restart."""
    closed_replica, open_replica = replicas
    redis_server.stop()
    try:
        for _ in range(10):
            refusal = closed_replica.client.get("/v1/webhooks", headers=from_ip("192.0.2.1"))
            problem_of(refusal, 503)
            assert refusal.headers["retry-after"]
            assert refusal.elapsed.total_seconds() < 10
        assert open_replica.statuses("192.0.2.1", 101) == [401] * 100 + [429]
        assert [replica.sees_redis() for replica in replicas] == [False, False]
    finally:
        redis_server.start()
    assert numbers(open_replica.client.get("/v1/webhooks", headers=from_ip("192.0.2.2")))[0] == 100
    for replica in replicas:
        eventually(
            lambda replica=replica: replica.statuses("192.0.2.3", 1) == [401] and replica.sees_redis(),  # type: ignore[misc]
            "counting in Redis again",
        )


async def test_many_requests_at_once_have_a_connection_each(
    redis_server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the 101st request at the same moment made the counters unavailable for all callers for a second."""
    monkeypatch.setattr(rate_limits, "_ANSWER_SECONDS", 60.0)
    limiter = Limiter(ApiSettings(rate_limit_url=f"redis://{redis_server.address}/0", rate_limit_fail_open=False))
    try:
        verdicts = await asyncio.gather(*(limiter.hit(Scope.IP, f"192.0.2.{number}") for number in range(150)))
    finally:
        await limiter.close()
    assert all(verdict is not None and verdict.allowed for verdict in verdicts)


def test_limits_of_zero_are_lifted_and_say_nothing(client: httpx.Client, api: ApiProcess) -> None:
    """The benchmark, and installations with limits in a gateway, need this."""
    answers = [client.get("/v1/webhooks") for _ in range(150)]
    assert {answer.status_code for answer in answers} == {401}
    assert not [name for name in HEADERS if name in answers[-1].headers]
    assert api.metric("hookwright_rate_limit_rejections_total", scope="ip") == 0


@pytest.mark.slow
def test_a_burst_of_wrong_logins_does_not_slip_past_the_limit(limited: tuple[ApiProcess, httpx.Client]) -> None:
    """Of 40 concurrent logins and 12 more, about 10 are checked; the others are refused without a check."""
    _, client = limited

    def log_in(number: int) -> int:
        body = {"email": f"nobody-{number}@example.com", "password": "x"}
        return client.post("/v1/auth/login", json=body, headers=from_ip("192.0.2.7")).status_code

    with ThreadPoolExecutor(40) as pool:
        statuses = list(pool.map(log_in, range(40)))
    assert set(statuses) == {401, 429}
    # Two passwords of an address wait or are checked, so most of the burst is refused before it can fail.
    statuses += [log_in(number) for number in range(40, 52)]
    assert 10 <= statuses.count(401) <= 11
    assert statuses[-1] == 429
