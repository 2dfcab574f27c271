"""The metrics of the intake's answers, and the answer at the end of the process."""

import asyncio
from typing import Any, cast

import httpx
import pytest
from prometheus_client import REGISTRY

from hookwright_operator.intake.app import IntakeApp
from hookwright_operator.intake.routes.events import EVENTS

PATH = "/v1alpha1/namespaces/acme/projects/billing/events"


def answers(route: str, method: str, status: int) -> tuple[float | None, float | None]:
    """Return how many answers the counter and the histogram have."""
    labels = {"route": route, "method": method, "status": str(status)}
    names = ("hookwright_intake_requests_total", "hookwright_intake_request_duration_seconds_count")
    counter, histogram = (REGISTRY.get_sample_value(name, labels) for name in names)
    return counter, histogram


@pytest.mark.parametrize(
    ("method", "path", "is_ready", "labels"),
    [
        ("POST", PATH, False, (EVENTS, "POST", 503)),
        ("PUT", PATH, True, (EVENTS, "PUT", 405)),
        ("PROPFIND", "/etc/passwd", True, ("unmatched", "other", 404)),
    ],
)
async def test_each_answer_counts_with_its_route_also_before_the_routing(
    method: str, path: str, labels: tuple[str, str, int], *, is_ready: bool
) -> None:
    """Labels are bounded: no name of a tenant, no unknown path, no unknown method."""
    services, auth = cast("Any", None), cast("Any", None)
    app = IntakeApp(services, auth, ready=lambda: None if is_ready else "the store is opening")
    before = answers(*labels)[0] or 0.0
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://intake") as client:
        answer = await client.request(method, path)
    assert answer.status_code == labels[2]
    assert answers(*labels) == (before + 1, before + 1)


def test_acceptance_exists_in_the_metrics_before_the_first_event() -> None:
    """A rate over a counter that first appears with the first 503 would miss it."""
    IntakeApp(cast("Any", None), cast("Any", None), ready=lambda: None)
    assert None not in [answers(EVENTS, "POST", status)[0] for status in (202, 500, 503)]


async def test_a_request_that_is_left_when_the_process_stops_is_a_503() -> None:
    """The server cancels it; the producer knows that it must send the event again."""

    class Auth:
        async def permit(self, *_: object) -> None:
            await asyncio.get_running_loop().create_future()

    app = IntakeApp(cast("Any", None), cast("Any", Auth()), ready=lambda: None)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://intake") as client:
        request = asyncio.create_task(client.post(PATH, json={}))
        await asyncio.sleep(0.01)
        request.cancel()
        answer = await request
    assert answer.status_code == 503
    assert "stopping" in answer.json()["detail"]
