"""One turn of a key in a replica that leads: when it is reconciled again, and what it leaves to other parts."""

import base64

import pytest
from support.reconcile_stage import Stage
from unit.operator.watch.test_cache import ORDERS, PROJECT, endpoint, project, secret

from hookwright_crds.resources import WebhookEndpoint
from hookwright_operator.reconcile.plan import FINALIZER, CreateSecret, Plan
from hookwright_operator.reconcile.reconciler import shortened, without_secrets
from hookwright_operator.watch.objects import Secret
from hookwright_runtime.errors import KubeError, KubeUnavailable, WriteRefused


@pytest.fixture
def stage() -> Stage:
    """Return a stage with a project only, in a replica that leads."""
    return Stage()


async def test_a_status_without_counts_has_them_looked_up(stage: Stage) -> None:
    """The counts are in the store, and are published again only if a status lost them."""
    await stage.ready()
    assert await stage.counted() == ["uid-orders"]
    await stage.reconciler.reconcile(ORDERS)
    cached = stage.cache.resource(ORDERS)
    assert isinstance(cached, WebhookEndpoint)
    assert cached.status.deliveries is not None
    assert await stage.counted() == ["uid-orders"]


async def test_a_new_endpoint_has_no_counts_to_look_up(stage: Stage) -> None:
    """Five hundred new endpoints must not delay the counts of the others."""
    stage.sees(1, finalizers=[])
    await stage.reconciler.reconcile(ORDERS)
    assert stage.registry.get("uid-orders") is not None
    assert await stage.counted() == []


async def test_what_the_answers_to_our_writes_show_is_looked_at_once_more(stage: Stage) -> None:
    """Another client may have changed the object at the same time, and the watch then shows nothing new."""
    stage.sees(1)
    stage.cache.see_secret(secret())
    stage.server.endpoint = endpoint(900, url="https://other.example/", finalizers=[FINALIZER])
    assert await stage.reconciler.reconcile(ORDERS) == 0.0
    assert stage.cache.answered == set(), "the watch event may concern what the endpoint names"
    assert await stage.reconciler.reconcile(ORDERS) is None
    assert [entry.url for entry in stage.registry] == ["https://other.example/"]


async def test_an_answer_that_shows_only_what_was_written_ends_it(stage: Stage) -> None:
    """A new endpoint is planned once."""
    stage.sees(1, finalizers=[])
    assert await stage.reconciler.reconcile(ORDERS) is None
    assert [method for method, _, _ in stage.server.asked] == ["POST", "PATCH"]
    assert stage.cache.answered == {"1001", "1002"}, "their watch events show nothing new"


async def test_an_answer_that_shows_nothing_new_ends_it(stage: Stage) -> None:
    """A write without effect must not cause the next write."""
    await stage.ready()
    stage.sees(2000)
    assert await stage.reconciler.reconcile(ORDERS) is None
    assert [method for method, _, _ in stage.server.asked] == ["PATCH"]


async def test_a_project_that_is_gone_accepts_nothing(stage: Stage) -> None:
    """A project accepts events after its reconcile, and rejects them after the reconcile of its deletion."""
    await stage.reconciler.reconcile(PROJECT)
    assert stage.registry.project("acme", "billing")
    stage.cache.lose("Project", project(3000))
    await stage.reconciler.reconcile(PROJECT)
    assert not stage.registry.project("acme", "billing")


async def test_a_refused_secret_is_reported_and_events_find_the_endpoint(stage: Stage) -> None:
    """The status has the API server's message, one Event tells it, and deliveries are accepted for later."""
    stage.sees(1)
    quota = 'secrets "orders-signing" is forbidden: exceeded quota: secrets=2'
    refusal = KubeError("403", status=403, reason="Forbidden", explanation=quota)
    stage.server.refuse = lambda method, path: refusal if (method, path[-8:]) == ("POST", "/secrets") else None
    for _ in range(2):
        with pytest.raises(WriteRefused):
            await stage.reconciler.reconcile(ORDERS)
    snapshot = stage.registry.get("uid-orders")
    assert snapshot is not None
    assert snapshot.block_reason == "WriteRefused"
    assert quota in stage.server.endpoint["status"]["conditions"][0]["message"]
    assert stage.server.events() == ["WriteRefused"]
    stage.server.refuse = lambda *_: None
    await stage.reconciler.reconcile(ORDERS)
    snapshot = stage.registry.get("uid-orders")
    assert snapshot is not None
    assert snapshot.sendable


async def test_a_missing_right_of_the_operator_is_an_error_of_the_installation(stage: Stage) -> None:
    """It is counted as an error and alerted, because no tenant can end it."""
    stage.sees(1)
    words = 'secrets is forbidden: User "hookwright" cannot create resource "secrets" in API group ""'
    refusal = KubeError("403", status=403, reason="Forbidden", explanation=words)
    stage.server.refuse = lambda method, path: refusal if (method, path[-8:]) == ("POST", "/secrets") else None
    with pytest.raises(KubeError) as error:
        await stage.reconciler.reconcile(ORDERS)
    assert not isinstance(error.value, WriteRefused)
    assert words in stage.server.endpoint["status"]["conditions"][0]["message"]


@pytest.mark.parametrize("status", [400, 403, 422, 500, 503])
async def test_no_error_of_a_write_has_the_secret_that_the_answer_repeats(stage: Stage, status: int) -> None:
    """The work queue logs the error, also one that is no refusal, such as a 503."""
    stage.sees(1)
    kind = KubeUnavailable if status >= 500 else KubeError

    def echo(method: str, path: str) -> KubeError | None:
        if (method, path[-8:]) != ("POST", "/secrets"):
            return None
        request = stage.server.asked[-1][2]["stringData"]["secret"]
        text = f"cannot create resource: {request} {base64.b64encode(request.encode()).decode()}"
        return kind(f"POST {path}: {status} {text}", status=status, explanation=text)

    stage.server.refuse = echo
    with pytest.raises(KubeError, match=f"{status} cannot create resource: .secret. .secret.") as error:
        await stage.reconciler.reconcile(ORDERS)
    assert error.value.status == status
    assert error.value.__cause__ is None
    assert error.value.__context__ is None
    assert "whsec_" not in f"{error.value} {error.value.explanation} {stage.server.endpoint}"


def test_the_message_of_a_refusal_has_no_secret_in_it() -> None:
    """An admission webhook may repeat the Secret that it refuses, also in base64."""
    text = "whsec_" + "QUFB" * 11
    creation = Secret(namespace="acme", name="orders-signing", fields={"secret": text})
    message = f"refused: {text}, {base64.b64encode(text.encode()).decode()}, {'x' * 1000}"
    view = without_secrets(message, Plan((CreateSecret(creation),)))
    assert view == f"refused: [secret], [secret], {'x' * 1000}"
    assert shortened(view) == f"{view[:500]}…"
