"""Statistics of endpoints and projects: permissions, windows and answers."""

from dataclasses import replace

import pytest
from support.api_processes import problem_of
from support.attempts import SECRET
from support.dispatcher import subscriber
from support.intake import ORDERS, Intake, Tokens
from support.store_factories import event, settlement

from hookwright_operator.registry import ProjectSettings
from hookwright_operator.store.records import State

PATHS = ["/webhookendpoints/orders/statistics", "/projects/billing/statistics"]


async def settle(intake: Intake, uid: str, *states: State) -> None:
    """Settle a delivery of an endpoint for each state, and write the statistics."""
    events = [event(uid, claimed=True) for _ in states]
    store = intake.engine.store
    await store.accept(events)
    await store.settle([settlement(new.deliveries[0], state) for new, state in zip(events, states, strict=True)])
    await store.statistics.flush()


async def test_an_endpoint_has_numbers_in_total_and_in_buckets(intake: Intake) -> None:
    """All buckets of the window are there; without a successful attempt the latencies are null."""
    await settle(intake, ORDERS, State.DELIVERED, State.DELIVERED, State.FAILED)
    intake.clock.advance(60_000)

    document = (await intake.client.get("/webhookendpoints/orders/statistics?window=1h")).json()

    latencies = {"latency_p50_ms": None, "latency_p95_ms": None}
    absence = {"delivered": 0, "failed": 0, "attempts": 0, "failed_attempts": 0, **latencies}
    sample = absence | {"delivered": 2, "failed": 1, "attempts": 3, "failed_attempts": 1}
    sample |= {"latency_p50_ms": 8, "latency_p95_ms": 10}
    buckets = document.pop("buckets")
    assert document == {
        "window": "1h",
        "bucket_seconds": 60,
        "since": "2025-12-31T23:02:00.000Z",
        "until": "2026-01-01T00:02:00.000Z",
        "total": sample,
        "messages": None,
    }
    assert len(buckets) == 60
    assert buckets[0] == {"since": "2025-12-31T23:02:00.000Z", **absence}
    assert buckets[-2:] == [
        {"since": "2026-01-01T00:00:00.000Z", **sample},
        {"since": "2026-01-01T00:01:00.000Z", **absence},
    ]


async def test_attempts_that_failed_are_counted_before_their_delivery_fails(intake: Intake) -> None:
    """An outage is visible with its first attempts, hours before the last retry."""
    await settle(intake, ORDERS, State.PENDING, State.PENDING, State.DELIVERED)

    total = (await intake.client.get("/webhookendpoints/orders/statistics?window=1h")).json()["total"]

    assert (total["delivered"], total["failed"], total["attempts"], total["failed_attempts"]) == (1, 0, 3, 2)


@pytest.mark.parametrize(("query", "expected"), [("", ("24h", 900, 96)), ("7d", ("7d", 7200, 84))])
async def test_a_project_is_the_sum_of_its_endpoints(
    intake: Intake, tokens: Tokens, query: str, expected: tuple[str, int, int]
) -> None:
    """Endpoints of other projects do not count; the default window is a day."""
    intake.engine.store.statistics.registry = intake.registry
    intake.registry.put_project(tokens.namespace, "billing", ProjectSettings(uid="uid-of-billing"))
    for uid, project in (("uid-audit", "billing"), ("uid-other", "shipping")):
        second = subscriber(uid, "http://127.0.0.1:1/nobody-listens", suspend=True)
        twin = replace(second, namespace=tokens.namespace, name=uid, project=project, secrets=(SECRET,))
        intake.registry.put(twin)
    for uid in (ORDERS, "uid-audit", "uid-other"):
        await settle(intake, uid, State.DELIVERED)

    document = (await intake.client.get("/projects/billing/statistics", params={"window": query})).json()

    assert (document["window"], document["bucket_seconds"], len(document["buckets"])) == expected
    assert document["total"]["delivered"] == document["buckets"][-1]["delivered"] == 2


@pytest.mark.parametrize("path", PATHS)
async def test_an_unknown_window_is_422_with_the_known_ones(intake: Intake, path: str) -> None:
    """The answer names the field and the windows."""
    problem = problem_of(await intake.client.get(path, params={"window": "2h"}), 422)

    assert problem["errors"] == [{"field": "window", "message": "must be '1h', '24h' or '7d'"}]
