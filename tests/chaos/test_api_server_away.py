"""While the API server is down, accepted events are delivered and retried, and known producers can post."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from chaos.site import Site
from support.polling import until

from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.receiver import Receiver


@pytest.fixture
async def site(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Site]:
    """Return an operator on it, with a namespace for each test."""
    namespace = f"away-{uuid4().hex[:8]}"
    plane.objects.create("Namespace", namespace)
    site = Site.of(plane, namespace, tmp_path / "operator")
    yield site
    await site.close()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "hanging"])
async def test_deliveries_and_retries_go_on_while_the_api_server_is_away(
    plane: ControlPlane,
    site: Site,
    how: str,
    long: bool,  # noqa: FBT001
) -> None:
    """Accepted events are sent and retried and the process stays live; afterwards changes take effect."""
    # A cached review is valid for one minute after it was made: at least 50 s of it without the API server.
    seconds = 40 if long else 2
    await site.endpoints()
    flaky = site.receivers["endpoint-0"]
    flaky.answer = lambda received: 500 if received.attempt == 1 else 200
    await site.start()
    await site.post()
    apiserver = next(process for process in plane.processes if process.name == "kube-apiserver")
    if how == "killed":
        apiserver.kill()
    else:
        apiserver.send_signal(signal.SIGSTOP)
    try:
        # The producer's review is cached, so its events are still accepted.
        async with site.load(rate=20):
            await asyncio.sleep(seconds)  # under load
        await site.all_arrived()
        assert len(site.ledger.accepted) > seconds
        await until(lambda: all(times == 2 for times in attempts(flaky).values()))
        if long:
            await asyncio.sleep(20)  # and then without load, until it has been down for a minute
        assert site.operator.running.running
    finally:
        if how == "killed":
            again = plane._run("kube-apiserver", plane.apiserver_command())
            plane.processes.remove(apiserver)
            with plane._client() as client:
                ready = f"{plane.server}/readyz"
                await asyncio.to_thread(again.wait_ready, lambda: client.get(ready).is_success, 60)
        else:
            apiserver.send_signal(signal.SIGCONT)
    await asyncio.to_thread(site.check_requests)
    late = await site.endpoint("late", "wa_read")
    async with asyncio.timeout(90):
        while not late.received:
            await site.post("wa_read")
            await asyncio.sleep(0.1)


def attempts(receiver: Receiver) -> Counter[str]:
    """Count the requests of each message."""
    return Counter(request.id for request in receiver.received)
