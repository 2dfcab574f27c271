"""Tests of hanging endpoints: they use separate places and connections, and the intake and /v1 stay open."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from integration.api import conftest as shared
from integration.api.conftest import Organizations
from support.api_processes import Organization

from hookwright_dev.cluster.installation import ApiProcess
from hookwright_dev.cluster.kubectl import Cluster

control_plane, operator, api, client = shared.control_plane, shared.operator, shared.api, shared.client

EVENT = {"type": "delivered", "messageId": "m"}


@pytest.fixture(scope="module")
def tenants(control_plane: Cluster, client: httpx.Client) -> Iterator[tuple[Organization, Organization]]:
    """Yield a hostile organization and another one, each with project billing."""
    organizations = Organizations(control_plane, client)
    hostile, rival = organizations.new("hostile"), organizations.new("other")
    for organization in (hostile, rival):
        organization.project()
    yield hostile, rival
    organizations.remove()


@pytest.fixture
def hanging() -> Iterator[str]:
    """Yield the URL of a receiver that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/hang"


@asynccontextmanager
async def client_of(api: ApiProcess, key: dict[str, str]) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of /v1 with a key and as many connections as it wants."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=api.url, headers=key, trust_env=False, timeout=120, limits=limits) as client:
        yield client


@pytest.mark.slow
async def test_200_tests_of_one_hanging_endpoint_shut_nothing(
    api: ApiProcess, tenants: tuple[Organization, Organization], hanging: str
) -> None:
    """Two are under way, the others are answered 429 at once; events of both organizations are accepted meanwhile."""
    hostile, rival = tenants
    key, other_key = hostile.service_key(), rival.service_key()
    webhook = hostile.webhook(key, hanging)["id"]
    async with client_of(api, key) as attacker, client_of(api, other_key) as victim:
        tests = [asyncio.create_task(attacker.post(f"/v1/webhooks/{webhook}/test")) for _ in range(200)]
        refusals = [await next_one for _, next_one in zip(range(198), asyncio.as_completed(tests), strict=False)]
        assert {answer.status_code for answer in refusals} == {429}
        for answer in refusals:
            assert int(answer.headers["retry-after"]) > 0
            assert answer.headers["content-type"] == "application/problem+json"
            assert "2 tests in progress" in answer.json()["detail"]
        for client in (victim, attacker):
            answers = await asyncio.gather(*(client.post("/v1/events", json=EVENT) for _ in range(20)))
            assert {answer.status_code for answer in answers} == {202}
        await _cancel(tests)


async def test_tests_of_many_endpoints_of_one_organization_are_bounded(
    api: ApiProcess, tenants: tuple[Organization, Organization], hanging: str
) -> None:
    """16 are under way of the 24 that its 12 endpoints may have; another organization tests its endpoint."""
    hostile, rival = tenants
    key, other_key = hostile.service_key(), rival.service_key()
    webhooks = [hostile.webhook(key, hanging)["id"] for _ in range(12)]
    name = rival.webhook(other_key, hanging)["id"]
    async with client_of(api, key) as attacker, client_of(api, other_key) as victim:
        tests = [asyncio.create_task(attacker.post(f"/v1/webhooks/{item}/test")) for item in webhooks * 2]
        refusals = [await next_one for _, next_one in zip(range(8), asyncio.as_completed(tests), strict=False)]
        assert {answer.status_code for answer in refusals} == {429}
        assert "16 tests of endpoints in progress" in refusals[0].json()["detail"]
        mine = asyncio.create_task(victim.post(f"/v1/webhooks/{name}/test"))
        result, _ = await asyncio.wait([mine], timeout=1)
        assert not result, "the other organization's test waits for its receiver"
        await _cancel([*tests, mine])


async def test_the_operator_bounds_tests_by_itself(
    api: ApiProcess, tenants: tuple[Organization, Organization], hanging: str
) -> None:
    """Several replicas of the API share an operator: its bound holds for requests that come to it directly."""
    hostile, _ = tenants
    webhook = hostile.webhook(hostile.service_key(), hanging)["id"]
    token = api.folder.joinpath("operator-token").read_text()
    url = f"{api.operator_url}/v1alpha1/namespaces/{hostile.name}/webhookendpoints/{webhook}"
    limits = httpx.Limits(max_connections=None)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=120, limits=limits) as client:
        tests = [asyncio.create_task(client.post(f"{url}/test")) for _ in range(50)]
        refusals = [await next_one for _, next_one in zip(range(48), asyncio.as_completed(tests), strict=False)]
        assert {answer.status_code for answer in refusals} == {429}
        assert int(refusals[0].headers["retry-after"]) > 0
        assert (await client.get(f"{url}/secret")).status_code == 200
        await _cancel(tests)


async def _cancel(requests: list[asyncio.Task[Any]]) -> None:
    for request in requests:
        request.cancel()
    await asyncio.gather(*requests, return_exceptions=True)
