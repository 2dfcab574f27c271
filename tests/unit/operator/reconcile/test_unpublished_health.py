"""Failed deliveries are reported in few Events, and none of them is lost."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from support.reconcile_stage import Stage
from unit.operator.watch.test_cache import ORDERS, endpoint, project

from hookwright_crds.resources import DeliveryCounts
from hookwright_operator.reconcile.plan import FINALIZER
from hookwright_operator.registry import Health
from hookwright_runtime.errors import KubeError, StoreUnavailable, WriteRefused


@pytest.fixture
def stage() -> Stage:
    """Return a stage with a project only, in a replica that leads."""
    return Stage()


def _fails(stage: Stage, number: int, error: str = "HTTP 500 Internal Server Error", *, operational: int = 0) -> None:
    counts = DeliveryCounts(failed=number, last_attempt_time=stage.now, last_status_code=500)
    snapshot = stage.registry.get("uid-orders")
    assert snapshot is not None
    stage.unpublished_health.publish(snapshot, Health(counts, error, number, operational))


async def test_an_endpoint_that_keeps_failing_has_an_event_every_ten_minutes_with_the_sum(stage: Stage) -> None:
    """The first failure causes an Event at once; later ones are reported together after ten minutes, automatically."""
    await stage.ready()
    _fails(stage, 1)
    await stage.reconciler.reconcile(ORDERS)
    assert [count for count, _ in stage.server.failure_events()] == [1]
    for _ in range(119):
        stage.now += timedelta(seconds=5)
        _fails(stage, 2)
        await stage.reconciler.reconcile(ORDERS)
    assert await stage.reconciler.reconcile(ORDERS) == pytest.approx(5)
    assert len(stage.server.failure_events()) == 1
    stage.now += timedelta(seconds=5)
    await stage.reconciler.reconcile(ORDERS)
    assert [count for count, _ in stage.server.failure_events()] == [1, 238]
    assert stage.server.failure_events()[1][1].startswith("238 deliveries failed")
    stage.now += timedelta(hours=1)
    await stage.reconciler.reconcile(ORDERS)
    assert len(stage.server.failure_events()) == 2


async def test_ten_thousand_failures_make_no_more_operational_events_than_ten(stage: Stage) -> None:
    """The first failures are reported at once, later ones together after a minute, with their number."""
    await stage.ready()
    for _ in range(10):
        _fails(stage, 1000)
        await stage.reconciler.reconcile(ORDERS)
        stage.now += timedelta(seconds=5)
    assert [body["count"] for body in stage.reports.bodies] == [1000]
    assert await stage.reconciler.reconcile(ORDERS) == pytest.approx(10)
    stage.now += timedelta(seconds=10)
    await stage.reconciler.reconcile(ORDERS)
    assert [body["count"] for body in stage.reports.bodies] == [1000, 9000]
    assert {body["type"] for body in stage.reports.bodies} == {"hookwright.delivery.failed"}
    assert len(set(stage.reports.ids)) == 2


async def test_a_failed_operational_event_causes_no_further_one(stage: Stage) -> None:
    """Two failing endpoints that report each other would never end; the Kubernetes Event has these failures too."""
    await stage.ready()
    _fails(stage, 3, operational=3)
    await stage.reconciler.reconcile(ORDERS)
    assert (stage.reports.bodies, [count for count, _ in stage.server.failure_events()]) == ([], [3])


async def test_an_operational_event_is_accepted_once_although_the_store_was_away(stage: Stage) -> None:
    """The next plan has it again with the same id, and reports the same failures."""
    await stage.ready()
    _fails(stage, 3)
    stage.reports.fault = StoreUnavailable("away")
    with pytest.raises(StoreUnavailable):
        await stage.reconciler.reconcile(ORDERS)
    stage.reports.fault = None
    stage.now += timedelta(seconds=5)
    await stage.reconciler.reconcile(ORDERS)
    await stage.reconciler.reconcile(ORDERS)
    assert [body["count"] for body in stage.reports.bodies] == [3]


async def test_failed_deliveries_are_counted_once_although_a_plan_fails(stage: Stage) -> None:
    """If the API server refuses the status before the Event, the next try reports the same number."""
    await stage.ready()
    _fails(stage, 3)
    stage.server.refuse = lambda _, path: KubeError("busy", status=429) if path.endswith("/status") else None
    for _ in range(2):
        with pytest.raises(KubeError):
            await stage.reconciler.reconcile(ORDERS)
    stage.server.refuse = lambda _method, _path: None
    await stage.reconciler.reconcile(ORDERS)
    assert [count for count, _ in stage.server.failure_events()] == [3]


async def test_an_event_of_many_has_the_time_of_the_first_report(stage: Stage) -> None:
    """Kubectl then shows the number and the period of the failures."""
    await stage.ready()
    _fails(stage, 1)
    await stage.reconciler.reconcile(ORDERS)
    stage.now += timedelta(minutes=4)
    _fails(stage, 5)
    await stage.reconciler.reconcile(ORDERS)
    stage.now += timedelta(minutes=6)
    await stage.reconciler.reconcile(ORDERS)
    body = [body for _, path, body in stage.server.asked if path.endswith("/events")][-1]
    assert body["count"] == 5
    assert (body["firstTimestamp"], body["lastTimestamp"]) == ("2030-01-01T12:04:00Z", "2030-01-01T12:10:00Z")


async def test_failures_that_are_reported_during_a_plan_wait_for_the_next_event(stage: Stage) -> None:
    """A plan reports the failures that it has observed, and only those count as reported."""
    await stage.ready()
    _fails(stage, 3)

    def fails_meanwhile(_method: str, path: str) -> None:
        if path.endswith("/status"):
            _fails(stage, 2, "HTTP 502 Bad Gateway")

    stage.server.refuse = fails_meanwhile
    await stage.reconciler.reconcile(ORDERS)
    stage.server.refuse = lambda _method, _path: None
    stage.now += timedelta(minutes=10)
    await stage.reconciler.reconcile(ORDERS)
    assert [count for count, _ in stage.server.failure_events()] == [3, 2]


def _without_project(stage: Stage) -> None:
    stage.cache.lose("Project", project(3000))


def _expired(stage: Stage) -> None:
    stage.sees(3000, expires_at="2020-01-01T00:00:00Z")


def _not_understood(stage: Stage) -> None:
    strange = endpoint(3000, finalizers=[FINALIZER])
    strange["spec"]["timeout"] = "soon"
    stage.cache.see("WebhookEndpoint", strange)


@pytest.mark.parametrize("becomes", [_without_project, _expired, _not_understood], ids=lambda state: state.__name__)
async def test_an_endpoint_that_is_not_ready_reports_its_failures_too(
    stage: Stage, becomes: Callable[[Stage], None]
) -> None:
    """Deliveries may fail just before the endpoint changes; one Event reports them."""
    await stage.ready()
    _fails(stage, 3)
    becomes(stage)
    for _ in range(2):
        await stage.reconciler.reconcile(ORDERS)
    assert [count for count, _ in stage.server.failure_events()] == [3]


async def test_a_refused_write_is_tried_again_without_a_second_event(stage: Stage) -> None:
    """The report of the refusal has the Event, and the next tries report only later failures."""
    await stage.ready()
    _fails(stage, 3)
    stage.sees(3000, finalizers=[])
    refusal = KubeError("403", status=403, reason="Forbidden", explanation="a policy refuses finalizers")
    stage.server.refuse = lambda method, path: refusal if method == "PATCH" and path.endswith("/orders") else None
    for _ in range(3):
        with pytest.raises(WriteRefused):
            await stage.reconciler.reconcile(ORDERS)
    assert [count for count, _ in stage.server.failure_events()] == [3]
