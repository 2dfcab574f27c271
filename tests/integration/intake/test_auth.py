"""Authorization of callers by a real API server."""

import asyncio
import time

import pytest
from support.api_processes import problem_of
from support.intake import Intake, Line, Tokens, allow, await_permission, rule
from support.polling import PATIENCE

from hookwright_dev.cluster.kubectl import Cluster
from hookwright_operator.intake.auth import Access, Producer, ReviewAuth, expiry_of
from hookwright_operator.intake.review_cache import Keeping
from hookwright_runtime.errors import KubeUnavailable
from hookwright_runtime.problems import ProblemError

EVENT = {"type": "delivered", "messageId": "m-1"}
ROUTE = "/projects/billing/events"
ALWAYS_ASK = Keeping(granted=0, denied=0, stale=0)


def as_bearer(token: str) -> dict[str, str]:
    """Return the header with the token."""
    return {"Authorization": f"Bearer {token}"}


async def test_the_scheme_may_be_written_in_any_way(intake: Intake, tokens: Tokens) -> None:
    """Letter case does not matter (RFC 9110, 11.1)."""
    for scheme in ("Bearer", "bearer", "BEARER "):
        headers = {"Authorization": f"{scheme} {tokens.sender}"}
        assert (await intake.client.post(ROUTE, json=EVENT, headers=headers)).status_code == 202


async def test_a_token_without_permission_is_403(intake: Intake, tokens: Tokens) -> None:
    """The refusal names the user and the missing permission."""
    answer = await intake.client.post(ROUTE, json=EVENT, headers=as_bearer(tokens.stranger))
    detail = problem_of(answer, 403)["detail"]
    assert f"system:serviceaccount:{tokens.namespace}:stranger" in detail
    assert "projects/events" in detail
    assert await intake.events() == []


async def test_a_permission_is_good_for_its_namespace_and_project_alone(
    intake: Intake, tokens: Tokens, namespace: str
) -> None:
    """Another organization and another project of this one are forbidden."""
    intake.registry.put_project(namespace, "billing")
    intake.registry.put_project(tokens.namespace, "payroll")
    abroad = f"http://127.0.0.1:{intake.server.port}/v1alpha1/namespaces/{namespace}{ROUTE}"
    problem_of(await intake.client.post(abroad, json=EVENT), 403)
    problem_of(await intake.client.post("/projects/payroll/events", json=EVENT), 403)
    assert await intake.events() == []


async def test_a_permission_may_come_by_group(
    intake: Intake, tokens: Tokens, shared_cluster: Cluster, namespace: str
) -> None:
    """The groups of the token's user count, as in every other check of Kubernetes."""
    intake.registry.put_project(namespace, "billing")
    group = f"system:serviceaccounts:{tokens.namespace}"
    allow(shared_cluster, namespace, {"kind": "Group", "name": group}, rule("create", "projects/events"))
    await_permission(shared_cluster, namespace, "nobody", group)
    route = f"http://127.0.0.1:{intake.server.port}/v1alpha1/namespaces/{namespace}{ROUTE}"
    assert (await intake.client.post(route, json=EVENT, headers=as_bearer(tokens.stranger))).status_code == 202
    review = intake.line.bodies["subjectaccessreviews"]["spec"]
    assert review["uid"]
    assert review["groups"]
    assert "authentication.kubernetes.io/credential-id" in review["extra"]


async def test_reviews_are_kept_for_a_short_time(intake: Intake) -> None:
    """Ten requests of one sender, four of them concurrent, cost one review of each kind."""
    await asyncio.gather(*(intake.client.post(ROUTE, json=EVENT) for _ in range(4)))
    for _ in range(6):
        assert (await intake.client.post(ROUTE, json=EVENT)).status_code == 202
    assert sorted(intake.line.posts) == ["subjectaccessreviews", "tokenreviews"]


async def test_a_caller_is_the_tokens_user_and_does_not_show_the_token(line: Line, tokens: Tokens) -> None:
    """The caller object has the name, never the credential or its digest."""
    caller = await ReviewAuth(line).authenticate(f"Bearer {tokens.sender}")
    assert caller.username == f"system:serviceaccount:{tokens.namespace}:sender"
    assert repr(caller) == f"Producer(username='{caller.username}')"


async def test_a_withdrawn_permission_is_refused_as_soon_as_it_is_asked_about(
    line: Line, shared_cluster: Cluster, tokens: Tokens, namespace: str
) -> None:
    """RBAC alone decides, at each question."""
    auth = ReviewAuth(line, keeping=ALWAYS_ASK)
    caller = await auth.authenticate(f"Bearer {tokens.stranger}")
    access = Access("create", "projects", "events", namespace, "billing")
    account = {"kind": "ServiceAccount", "name": "stranger", "namespace": tokens.namespace}
    allow(shared_cluster, namespace, account, rule("create", "projects/events"))
    await until(auth, caller_may=True, caller=caller, access=access)
    shared_cluster.objects.delete("RoleBinding", "stranger", namespace=namespace)
    await until(auth, caller_may=False, caller=caller, access=access)


async def test_while_the_api_server_is_away_only_known_senders_are_served(
    intake: Intake, tokens: Tokens, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stranger gets a 503 and can retry; no caller passes without a review, and no token is logged."""
    assert (await intake.client.post(ROUTE, json=EVENT)).status_code == 202
    intake.line.cut = True
    assert (await intake.client.post(ROUTE, json=EVENT)).status_code == 202
    answer = await intake.client.post(ROUTE, json=EVENT, headers=as_bearer(tokens.stranger))
    problem_of(answer, 503)
    assert int(answer.headers["retry-after"]) > 0
    assert len(await intake.events()) == 2
    output = "".join(capsys.readouterr())
    assert "review failed" in output
    assert tokens.stranger not in output
    intake.line.cut = False
    problem_of(await intake.client.post(ROUTE, json=EVENT, headers=as_bearer(tokens.stranger)), 403)


async def test_no_answer_outlives_the_token(line: Line, tokens: Tokens) -> None:
    """The token's expiry has priority over every setting."""
    expiry, now, wall = expiry_of(tokens.sender), 0.0, time.time()
    auth = ReviewAuth(line, now=lambda: now, wall=lambda: wall)
    wall = expiry - 5
    await auth.authenticate(f"Bearer {tokens.sender}")
    line.cut = True
    now = 4.9
    await auth.authenticate(f"Bearer {tokens.sender}")
    now = 5.0
    with pytest.raises(KubeUnavailable):
        await auth.authenticate(f"Bearer {tokens.sender}")


async def test_the_expiry_of_a_real_token_is_read(tokens: Tokens) -> None:
    """The tokens of the tests are for an hour."""
    assert 0 < expiry_of(tokens.sender) - time.time() <= 3601
    assert expiry_of("opaque") == float("inf")
    assert expiry_of("a.b.c") == float("inf")


async def until(auth: ReviewAuth, *, caller_may: bool, caller: Producer, access: Access) -> None:
    """Wait until the API server's authorizer has seen a change of RBAC."""
    deadline = time.monotonic() + PATIENCE
    while await may(auth, caller, access) is not caller_may:
        assert time.monotonic() < deadline, "the API server's answer does not change"
        await asyncio.sleep(0.05)


async def may(auth: ReviewAuth, caller: Producer, access: Access) -> bool:
    """Return whether a caller is authorized."""
    try:
        await auth.authorise(caller, access)
    except ProblemError as problem:
        return problem.status != 403
    return True
