"""Two installations on one database: the second one is refused and discards nothing of the first."""

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import asyncpg
import pytest
import yaml
from support.polling import eventually
from support.store_factories import accept_one, state_of

from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE, OperatorProcess, service_account_kubeconfig
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.cluster.postgres import PostgresServer
from hookwright_dev.processes import free_port
from hookwright_operator.adopt import this_installation
from hookwright_operator.process import now_ms
from hookwright_operator.store.database_owner import Installation, claim_database, hand_over
from hookwright_operator.store.records import State
from hookwright_operator.store.store import Store
from hookwright_runtime.errors import KubeError, StoreError
from hookwright_runtime.kubernetes import KubernetesClient

FIRST = Installation("00000000-0000-4000-8000-000000000001", SYSTEM_NAMESPACE)
SECOND = Installation("00000000-0000-4000-8000-000000000002", SYSTEM_NAMESPACE)
COMMAND = re.compile(r"hookwright-adopt (--from \S+ --to [^\s'\"]+)")
SLOW = pytest.mark.slow


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=SLOW)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shared.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database(f"shared_{os.urandom(4).hex()}")


@asynccontextmanager
async def opened(url: str, clock: Callable[[], int] = now_ms, *, lease_ms: int = 1) -> AsyncIterator[Store]:
    """Open the store as an operator does once it may use the database; its lease ends with it."""
    store = await Store.open(url, instance="first", lease_ms=lease_ms, clock=clock)
    try:
        yield store
    finally:
        await store.close()


async def of_first_cluster(url: str) -> str:
    """Let another cluster's installation use the database first, and stop with the returned delivery pending."""
    await claim_database(url, FIRST, clock=now_ms)
    async with opened(url) as store:
        return (await accept_one(store, uid="endpoint-of-the-first")).id


async def state_of_first_cluster(url: str, delivery_id: str) -> State:
    """Return the state of that delivery."""
    async with opened(url) as store:
        return await state_of(store, delivery_id)


def adopt(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command that a refused operator logs."""
    return subprocess.run(
        [sys.executable, "-m", "hookwright_operator.adopt", *arguments],
        env={**os.environ, "HOOKWRIGHT_DATABASE_URL": url},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.slow
def test_a_second_cluster_is_refused_and_keeps_every_delivery_even_when_it_gets_the_database(
    control_plane: Cluster, url: str, tmp_path: Path
) -> None:
    """The operator of another cluster ends with an error; after the hand-over the deliveries are still pending."""
    delivery_id = asyncio.run(of_first_cluster(url))
    operator = OperatorProcess(control_plane, tmp_path / "second", {"HOOKWRIGHT_DATABASE_URL": url})
    operator.start(wait=False)
    assert operator.running.wait(60) == 1
    log = operator.log.read_text()
    assert FIRST.cluster_uid in log
    assert f"namespace {SYSTEM_NAMESPACE}" in log
    assert asyncio.run(state_of_first_cluster(url, delivery_id)) is State.PENDING

    command = COMMAND.search(log)
    assert command is not None, log
    handover = adopt(url, *command[1].split())
    assert handover.returncode == 0, handover.stderr
    operator.start()
    try:
        eventually(lambda: operator.metric("hookwright_deliveries_orphaned") == 1, "the orphan is counted")
        assert operator.metric("hookwright_deliveries_total", outcome="discarded") == 0
    finally:
        assert operator.stop() == 0
    assert asyncio.run(state_of_first_cluster(url, delivery_id)) is State.PENDING
    with pytest.raises(StoreError, match="belongs to another installation"):
        asyncio.run(claim_database(url, FIRST, clock=now_ms))


async def test_another_namespace_of_the_same_cluster_is_another_installation(url: str) -> None:
    """A second installation in one cluster, such as staging, is refused as well; the first starts again and again."""
    staging = Installation(FIRST.cluster_uid, "staging")
    for _ in range(2):
        await claim_database(url, FIRST, clock=now_ms)
    with pytest.raises(StoreError, match=f"hookwright-adopt --from {FIRST} --to {staging}"):
        await claim_database(url, staging, clock=now_ms)


async def test_a_refused_installation_does_not_migrate_the_database(url: str) -> None:
    """The owner is compared before the schema, because the owner's operators may be of another version."""
    await claim_database(url, FIRST, clock=now_ms)
    await set_revision(url, "r0000")
    with pytest.raises(StoreError, match="belongs to another installation"):
        await claim_database(url, SECOND, clock=now_ms)
    third = Installation(FIRST.cluster_uid, "staging")
    with pytest.raises(StoreError, match=f"belongs to {FIRST} and not to {third}; nothing was changed"):
        await hand_over(url, third, SECOND, clock=now_ms)
    with pytest.raises(StoreError, match="has revision r0000, which this operator does not know"):
        await claim_database(url, FIRST, clock=now_ms)


async def set_revision(url: str, revision: str) -> None:
    """Change the revision of the schema, without the operator's own code."""
    query = f"UPDATE alembic_version SET version_num = '{revision}'"  # noqa: S608 - only constants
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            connection.execute(query)
        return
    connected = await asyncpg.connect(url)
    try:
        await connected.execute(query)
    finally:
        await connected.close()


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_of_two_installations_that_start_at_once_one_gets_the_database(url: str) -> None:
    """The owner is entered once, whatever the order of transactions is."""
    starts = [claim_database(url, installation, clock=now_ms) for installation in (FIRST, SECOND) * 3]
    results = await asyncio.gather(*starts, return_exceptions=True)
    refusal = [result for result in results if isinstance(result, StoreError)]
    assert len(refusal) == 3, results


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_a_database_that_operators_use_is_not_handed_over(url: str) -> None:
    """A living operator of the current owner would use endpoints of the wrong cluster."""
    await claim_database(url, FIRST, clock=now_ms)
    async with opened(url, lease_ms=60_000):
        with pytest.raises(StoreError, match="1 operator processes use the database"):
            await hand_over(url, FIRST, SECOND, clock=now_ms)
        await claim_database(url, FIRST, clock=now_ms)
    await hand_over(url, FIRST, SECOND, clock=lambda: now_ms() + 61_000)
    await claim_database(url, SECOND, clock=now_ms)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("--from", "nonsense", "--to", str(SECOND)), "is not an installation", id="malformed", marks=SLOW),
        pytest.param(("--from", str(SECOND), "--to", "a/b"), f"belongs to {FIRST}", id="another owner"),
    ],
)
def test_the_command_changes_nothing_unless_it_names_the_present_owner(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    """The error names the owner, or the correct form."""
    url = f"sqlite:///{tmp_path}/d.db"
    asyncio.run(claim_database(url, FIRST, clock=now_ms))
    result = adopt(url, *arguments)
    assert result.returncode == 1
    assert message in result.stderr
    asyncio.run(claim_database(url, FIRST, clock=now_ms))


async def test_an_operator_that_may_not_read_kube_system_names_the_missing_right(
    control_plane: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ServiceAccount default has no rights at all."""
    monkeypatch.setenv("KUBECONFIG", str(service_account_kubeconfig(control_plane, "default", tmp_path)))
    kube = await KubernetesClient.connect("hookwright-operator")
    try:
        with pytest.raises(KubeError, match=r"verb get on the resource namespaces with resourceNames \[kube-system\]"):
            await this_installation(kube, SYSTEM_NAMESPACE, asyncio.Event())
    finally:
        await kube.close()


async def test_an_operator_waits_for_an_api_server_that_is_away_and_ends_when_it_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is decided without the cluster's identity, and SIGTERM ends the wait."""
    cluster = {"name": "away", "cluster": {"server": f"http://127.0.0.1:{free_port()}"}}
    context = {"name": "away", "context": {"cluster": "away", "user": "nobody"}}
    users = [{"name": "nobody", "user": {}}]
    config = {"clusters": [cluster], "contexts": [context], "users": users, "current-context": "away"}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    kube, end = await KubernetesClient.connect("hookwright-operator"), asyncio.Event()
    waiting = asyncio.create_task(this_installation(kube, SYSTEM_NAMESPACE, end))
    result, _ = await asyncio.wait([waiting], timeout=0.5)
    assert not result
    end.set()
    assert await asyncio.wait_for(waiting, 10) is None
    await kube.close()
