"""Places that tenants share: several accounts or namespaces of one attacker use few of them.

The attacks: two ServiceAccounts of one namespace ask for names that they have not asked for, requests for deliveries
name several namespaces, and a few organizations send as many events as they can.
"""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from integration.intake import conftest as intake_fixtures
from support.intake import Intake, Tokens
from support.polling import until
from support.receivers import serve

from hookwright_api import operator_client
from hookwright_api.operator_client import OperatorClient
from hookwright_operator.store.store import Store
from hookwright_runtime.bounds import OPERATOR_REQUESTS, REQUESTS_WITHOUT_GRANT
from hookwright_runtime.problems import ProblemError

tokens, line, intake = intake_fixtures.tokens, intake_fixtures.line, intake_fixtures.intake

DELIVERY = f"dlv_{0:026}"


async def test_a_caller_that_names_several_namespaces_uses_the_slots_of_one(
    intake: Intake, tokens: Tokens, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller without permission gets 32 places in all; requests of a caller with a grant are served beside them."""
    count, release = 0, asyncio.Event()
    read_log = Store.read_log

    async def held(store: Store, *arguments: Any) -> object:
        nonlocal count
        count += 1
        await release.wait()
        return await read_log(store, *arguments)

    assert (await intake.client.get(f"/deliveries/{DELIVERY}")).status_code == 404
    monkeypatch.setattr(Store, "read_log", held)
    paths = [
        f"http://127.0.0.1:{intake.server.port}/v1alpha1/namespaces/{name}/deliveries/{DELIVERY}"
        for name in (tokens.namespace, namespace)
    ]
    stranger = {"Authorization": f"Bearer {tokens.stranger}"}
    attack = [asyncio.create_task(intake.client.get(paths[n % 2], headers=stranger)) for n in range(50)]
    await until(lambda: sum(task.done() for task in attack) == 50 - REQUESTS_WITHOUT_GRANT.each)
    assert count == REQUESTS_WITHOUT_GRANT.each
    requests = [asyncio.create_task(intake.client.get(f"/deliveries/{DELIVERY}")) for _ in range(8)]
    await until(lambda: count == REQUESTS_WITHOUT_GRANT.each + 8)
    release.set()
    assert {(await answer).status_code for answer in requests} == {404}
    statuses = [(await answer).status_code for answer in attack]
    assert sorted(statuses) == [403] * REQUESTS_WITHOUT_GRANT.each + [429] * (50 - REQUESTS_WITHOUT_GRANT.each)


async def _answer_only_the_other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read a request, and answer it unless it is of a hostile organization."""
    head = await reader.readuntil(b"\r\n\r\n")
    if b"/namespaces/other/" not in head:
        await asyncio.Event().wait()
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")


async def test_a_few_organizations_leave_connections_to_the_operator_to_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of three has as many requests in progress as it gets; the requests of another organization are answered."""
    monkeypatch.setattr(operator_client, "_TIMEOUT", httpx.Timeout(300.0))
    requests, bound, reserve = OPERATOR_REQUESTS.total, OPERATOR_REQUESTS.each, OPERATOR_REQUESTS.reserved
    token = tmp_path / "token"
    token.write_text("token")
    hostile = [f"hostile-{number}" for number in range(3) for _ in range(requests)]
    async with serve(_answer_only_the_other) as server:
        operator = OperatorClient(server.url.removesuffix("/hooks"), token)
        request = [operator.forward("GET", name, "deliveries", subject="the log") for name in hostile]
        attack = [asyncio.create_task(item) for item in request]
        in_progress = requests - reserve
        await until(lambda: sum(task.done() for task in attack) == len(hostile) - in_progress)
        result = [(name, await _status(task)) for name, task in zip(hostile, attack, strict=True) if task.done()]
        assert Counter(result) == {
            ("hostile-0", 429): requests - bound,
            ("hostile-1", 429): requests - bound,
            ("hostile-2", 503): requests - (in_progress - 2 * bound),
        }
        for _ in range(2):
            assert await operator.forward("GET", "other", "deliveries", subject="the log") == b"{}"
            for task in attack:
                task.cancel()
            await asyncio.gather(*attack, return_exceptions=True)
        await operator.close()


async def _status(answer: asyncio.Task[Any]) -> int:
    try:
        await answer
    except ProblemError as error:
        return error.status
    return 200
