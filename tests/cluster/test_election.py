"""The election on a real API server: several replicas compete, one wins, and each uses its own clock."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.polling import until

from hookwright_dev.cluster.kubectl import Cluster
from hookwright_operator.leader.election import LEASE, Election, Leadership, LeaseTimes, seconds
from hookwright_runtime.errors import KubeError, NotLeading
from hookwright_runtime.kubernetes import KubernetesClient

SHORT = 2.0


@dataclass
class Stage:
    """A namespace's Lease, and replicas that compete for it."""

    kube: KubernetesClient
    cluster: Cluster
    namespace: str
    leaderships: dict[str, Leadership] = field(default_factory=dict)

    def candidate(self, identity: str, *, name: str = "") -> Election:
        """Return the election of a replica with this identity."""
        leadership = self.leaderships[identity] = Leadership(LeaseTimes(SHORT))
        return Election(self.kube, leadership, namespace=self.namespace, identity=identity, name=name)

    def lease(self) -> dict[str, Any]:
        """Return the Lease's spec."""
        return dict((self.cluster.objects.get("lease", LEASE, self.namespace) or {})["spec"])

    def write(self, **spec: Any) -> None:
        """Write fields of the Lease."""
        self.cluster.objects.patch("lease", LEASE, self.namespace, {"spec": spec})

    def leaders(self) -> list[str]:
        """Return the identities of the leaders."""
        return [identity for identity, leadership in self.leaderships.items() if leadership.holds]


@pytest.fixture
async def stage(shared_cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    """Yield an API server without a Lease, with short lease times."""
    monkeypatch.setenv("KUBECONFIG", str(shared_cluster.kubeconfig))
    kube = await KubernetesClient.connect("hookwright-operator")
    yield Stage(kube, shared_cluster, namespace)
    await kube.close()


async def wins(election: Election) -> bool:
    """Run one round of the election, and return whether this replica won it."""
    try:
        return await election.acquire_or_renew() == LeaseTimes(SHORT).renew_every
    except KubeError as error:
        if error.status != 409:
            raise
        return False


async def test_of_many_that_stand_at_once_one_leads(stage: Stage) -> None:
    """The Lease does not exist at first, and has no holder later."""
    candidates = [stage.candidate(f"process/{number}") for number in range(8)]
    assert sum(await asyncio.gather(*map(wins, candidates))) == 1
    [first] = stage.leaders()
    assert stage.lease()["holderIdentity"] == first
    await candidates[int(first.removeprefix("process/"))].release()
    assert stage.leaders() == []
    assert stage.lease().get("holderIdentity") is None
    assert sum(await asyncio.gather(*map(wins, candidates))) == 1
    assert stage.lease()["leaseTransitions"] == 1


async def test_a_lease_is_taken_over_when_it_stood_unchanged_for_its_duration(stage: Stage) -> None:
    """Only the observer's clock counts; the holder's times in the Lease may be hours old or ahead."""
    assert await wins(stage.candidate("dead/1"))
    for renew_time in ("2001-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"):
        heir = stage.candidate(f"heir/{renew_time}")
        stage.write(renewTime=renew_time, holderIdentity="dead/1")
        assert not await wins(heir)
        began = seconds()
        await until(lambda: wins(heir))  # noqa: B023 - called at once
        assert SHORT - 0.2 < seconds() - began < SHORT + 1.5


async def test_a_lease_that_is_renewed_is_left_alone(stage: Stage) -> None:
    """A renewed Lease is never taken over."""
    holder, second = stage.candidate("holder/1"), stage.candidate("other/1")
    began = seconds()
    while seconds() < began + 2 * SHORT:
        assert await wins(holder)
        assert not await wins(second)
        await asyncio.sleep(0.2)


async def test_who_comes_in_a_dead_ones_place_waits_for_nothing(stage: Stage) -> None:
    """A container restarted in its pod has the pod's name and leads at once; others wait."""
    assert await wins(stage.candidate("pod-0/before", name="pod-0"))
    assert not await wins(stage.candidate("pod-1/1", name="pod-1"))
    assert not await wins(stage.candidate("nameless/1"))
    assert await wins(stage.candidate("pod-0/after", name="pod-0"))


async def test_a_lease_that_somebody_deletes_gives_nobody_a_second_leader(stage: Stage) -> None:
    """The holder creates the Lease again; others wait for its remaining time."""
    holder, second = stage.candidate("holder/1"), stage.candidate("other/1")
    assert await wins(holder)
    assert not await wins(second)
    stage.cluster.objects.delete("lease", LEASE, namespace=stage.namespace)
    assert not await wins(second)
    assert await wins(holder)
    assert stage.leaders() == ["holder/1"]


async def test_a_holder_that_sees_another_one_leads_no_more(stage: Stage) -> None:
    """The state of its Lease and the rest of its time do not matter."""
    holder = stage.candidate("holder/1")
    assert await wins(holder)
    stage.write(holderIdentity="other/1")
    assert not await wins(holder)
    assert stage.leaders() == []


async def test_outside_a_term_no_byte_of_a_write_goes_out(stage: Stage) -> None:
    """The body checks the leadership when it is written, so a write after the end of the leadership is not sent."""
    leadership = Leadership()
    kube = stage.kube.within(leadership)
    path = f"/api/v1/namespaces/{stage.namespace}/configmaps"
    body = {"metadata": {"name": "written"}}
    with pytest.raises(NotLeading, match="this replica is not the leader"):
        await kube.post(path, body)
    assert (await kube.get(path))["kind"] == "ConfigMapList"
    leadership.renew(seconds())
    with pytest.raises(NotLeading, match="this replica is not the leader"):
        await stage.kube.within(_EndingMeanwhile()).post(path, body)
    assert stage.cluster.objects.get("configmap", "written", stage.namespace) is None
    leadership.renew(seconds())
    await kube.post(path, body)
    assert stage.cluster.objects.get("configmap", "written", stage.namespace)


class _EndingMeanwhile(Leadership):
    """A leadership that is valid at the first check, and invalid at the next."""

    def __init__(self) -> None:
        super().__init__()
        self._answers = [True, False]
        self.renew(seconds())

    @property
    def holds(self) -> bool:
        """Return the next answer."""
        return bool(self._answers) and self._answers.pop(0)


async def test_the_lead_is_handed_on_only_when_nothing_is_being_written(stage: Stage) -> None:
    """A write in progress ends within the leadership that began it."""
    holder = stage.candidate("holder/1")
    assert await wins(holder)
    with stage.leaderships["holder/1"].writing:
        releasing = asyncio.create_task(holder.release())
        await asyncio.sleep(0)
        assert not stage.leaderships["holder/1"].holds
        assert stage.lease()["holderIdentity"] == "holder/1"
    await releasing
    assert stage.lease().get("holderIdentity") is None
