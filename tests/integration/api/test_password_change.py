"""POST /v1/auth/password: a user sets a new password."""

from collections.abc import Iterator

import httpx
import pytest
from integration.api.conftest import JSON_LOG, PROXY, StartApi
from support.api_processes import PASSWORD, Organization, password_changes_allowed, problem_of
from support.json_lines import entries
from support.polling import eventually
from support.stack import LIFTED

from hookwright_dev.cluster.installation import ApiProcess
from hookwright_dev.cluster.kubectl import Cluster

ON = LIFTED | JSON_LOG | PROXY | {"HOOKWRIGHT_PASSWORD_CHANGE": "true", "HOOKWRIGHT_RATE_LIMIT_LOGIN": "3"}
NEW = "four other random words"


@pytest.fixture(scope="module")
def changing(control_plane: Cluster, start_api: StartApi) -> Iterator[tuple[ApiProcess, httpx.Client]]:
    """Yield an API with the setting, and with the right that the chart grants with it."""
    with password_changes_allowed(control_plane):
        yield start_api(ON)


def seen(client: httpx.Client, session: dict[str, str]) -> None:
    """Return when an API knows a session's user."""
    eventually(lambda: client.get("/v1/auth/me", headers=session).status_code == 200, "this API knows the user")


def change(client: httpx.Client, headers: dict[str, str], current: str, new: str) -> httpx.Response:
    """Request a new password."""
    body = {"current_password": current, "new_password": new}
    return client.post("/v1/auth/password", json=body, headers=headers)


def test_a_new_password_ends_all_sessions_and_returns_a_new_one(
    acme: Organization, changing: tuple[ApiProcess, httpx.Client]
) -> None:
    """Only the new password and the new token are valid. The log has who did it, and neither password."""
    before = acme.session()
    api, client = changing
    seen(client, before)
    answer = change(client, before, PASSWORD, NEW)
    assert answer.status_code == 200, answer.text
    assert answer.json()["user"]["email"] == acme.email
    after = {"Authorization": f"Bearer {answer.json()['token']}"}
    assert client.get("/v1/auth/me", headers=after).status_code == 200
    problem_of(client.get("/v1/auth/me", headers=before), 401)
    logins = [
        client.post("/v1/auth/login", json={"email": acme.email, "password": password}) for password in (PASSWORD, NEW)
    ]
    assert [login.status_code for login in logins] == [401, 200]
    assert ("password.change", acme.email) in {(line.get("action"), line.get("target")) for line in entries(api.log)}
    log = api.log.read_text()
    assert PASSWORD not in log
    assert NEW not in log


def test_wrong_passwords_are_limited_like_logins_and_change_nothing(
    acme: Organization, changing: tuple[ApiProcess, httpx.Client]
) -> None:
    """A stolen session cannot guess the password faster than a login can."""
    session = acme.session() | {"X-Forwarded-For": "198.51.100.7"}
    _, client = changing
    seen(client, session)
    short = problem_of(change(client, session, PASSWORD, "x" * 11), 422)
    assert short["errors"] == [{"field": "new_password", "message": "must have at least 12 characters"}]
    wrong = [change(client, session, "wrong", NEW) for _ in range(4)]
    assert [answer.status_code for answer in wrong] == [422, 422, 422, 429]
    assert wrong[0].json()["errors"] == [{"field": "current_password", "message": "is wrong"}]
    assert change(client, session, PASSWORD, NEW).status_code == 429
    assert client.get("/v1/auth/me", headers=session).status_code == 200


def test_an_installation_that_manages_users_elsewhere_refuses(acme: Organization, client: httpx.Client) -> None:
    """The setting is off by default, and a correct password changes nothing."""
    answer = change(client, acme.session(), PASSWORD, NEW)
    assert "this installation does not let users change passwords" in problem_of(answer, 403)["detail"]
