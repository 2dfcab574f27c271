"""Users, login and sessions."""

import base64
import secrets
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import jwt
import pytest
from integration.api.conftest import StartApi
from support.api_processes import PASSWORD, Organization, problem_of
from support.json_lines import entries
from support.polling import eventually
from support.stack import LIFTED

from hookwright_api.auth.passwords import hash_password
from hookwright_crds.sessions import SESSION_KEYS_NAME
from hookwright_crds.users import UserRole, user_secret_name
from hookwright_dev.cluster.installation import USERS_NAMESPACE, ApiProcess
from hookwright_dev.cluster.kubectl import Cluster


def log_in(client: httpx.Client, email: str, password: str = PASSWORD) -> httpx.Response:
    """Request a session."""
    return client.post("/v1/auth/login", json={"email": email, "password": password})


def token_of(answer: httpx.Response) -> str:
    """Return the token of a successful login."""
    assert answer.status_code == 200, answer.text
    return str(answer.json()["token"])


def me(client: httpx.Client, token: str) -> int:
    """Return the status that a token gets."""
    return client.get("/v1/auth/me", headers={"Authorization": f"Bearer {token}"}).status_code


def test_a_user_logs_in_and_sees_the_projects_of_the_organization(acme: Organization, client: httpx.Client) -> None:
    """The answers of login and me have exactly the promised fields."""
    acme.session()
    answer = log_in(client, acme.email)
    assert answer.headers["cache-control"] == "no-store"
    document = answer.json()
    assert set(document) == {"token", "token_type", "expires_at", "user"}
    assert document["token_type"] == "Bearer"
    assert document["user"] == {"email": acme.email, "organization": acme.name, "role": "admin"}
    mine = client.get("/v1/auth/me", headers={"Authorization": f"Bearer {document['token']}"}).json()
    assert mine == {
        "email": acme.email,
        "organization": acme.name,
        "role": "admin",
        "projects": [{"name": "billing", "display_name": "Billing"}],
        "expires_at": document["expires_at"],
    }


def test_email_is_compared_without_regard_to_case(acme: Organization, client: httpx.Client) -> None:
    """Users write addresses in upper or lower case."""
    acme.session()
    assert log_in(client, f" {acme.email.upper()} ").status_code == 200


@pytest.mark.slow
def test_unknown_email_and_wrong_password_are_answered_alike_and_as_slowly(
    acme: Organization, client: httpx.Client
) -> None:
    """Neither the text nor the time of the answer shows whether an address has an account."""
    session = acme.session()
    acme.user(email=acme.email, password_hash=hash_password(PASSWORD))
    eventually(lambda: client.get("/v1/auth/me", headers=session).status_code == 401, "the API has the hash")
    durations: dict[str, list[float]] = {acme.email: [], "nobody@example.com": []}
    texts = set()
    for _ in range(5):
        for email, seconds in durations.items():
            began = time.perf_counter()
            answer = log_in(client, email, "wrong")
            seconds.append(time.perf_counter() - began)
            problem_of(answer, 401)
            texts.add(answer.text)
    assert len(texts) == 1
    # The fastest answer of each kind waited least for a processor.
    known_seconds, unknown = (min(seconds) for seconds in durations.values())
    assert 0.5 < known_seconds / unknown < 2


def test_a_changed_password_and_a_deleted_user_end_the_session(
    acme: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """A new hash in the Secret of the user, or its deletion, makes the token invalid."""
    acme.session()
    before = token_of(log_in(client, acme.email))
    acme.user(email=acme.email, password_hash=hash_password("another password"))
    eventually(lambda: me(client, before) == 401, "ended by a new password")
    problem_of(log_in(client, acme.email), 401)
    after = token_of(log_in(client, acme.email, "another password"))
    assert me(client, after) == 200
    control_plane.objects.delete("Secret", user_secret_name(acme.email), namespace=USERS_NAMESPACE)
    eventually(lambda: me(client, after) == 401, "ended with the user")


def test_a_logout_ends_all_sessions_of_the_user_on_every_replica_and_after_a_restart(
    acme: Organization, client: httpx.Client, start_api: StartApi, api: ApiProcess
) -> None:
    """The request after the logout gets a 401, and the next login is valid at once. Another user stays logged in."""
    viewer = acme.session_of(UserRole.VIEWER)["Authorization"].removeprefix("Bearer ")
    acme.session()
    _, replica = start_api(LIFTED)
    tokens = [token_of(log_in(instance, acme.email)) for instance in (client, replica, client)]
    answer = client.post("/v1/auth/logout", headers={"Authorization": f"Bearer {tokens[0]}"})
    assert (answer.status_code, answer.content) == (204, b"")
    assert [me(client, token) for token in tokens] == [401, 401, 401]
    fresh = token_of(log_in(client, acme.email))
    assert [me(client, fresh), me(client, viewer)] == [200, 200]
    problem_of(client.post("/v1/auth/logout", headers={"Authorization": f"Bearer {tokens[0]}"}), 401)
    eventually(lambda: [me(replica, token) for token in tokens] == [401, 401, 401], "ended at the other replica")
    _, restart = start_api(LIFTED)
    assert [me(restart, token) for token in (*tokens, fresh, viewer)] == [401, 401, 401, 200, 200]
    (line,) = [
        line for line in entries(api.log) if line.get("action") == "logout" and line["organization"] == acme.name
    ]
    assert (line["actor"], line["target"]) == (f"user:{acme.email}", acme.email)


def test_logouts_of_many_users_at_once_all_count(acme: Organization, client: httpx.Client) -> None:
    """Concurrent writes of the one Secret lose no end, and its size is bounded by the users."""
    headers = [acme.session_of(UserRole.VIEWER) for _ in range(5)]
    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda one: client.post("/v1/auth/logout", headers=one).status_code, headers))
    assert answers == [204] * 5
    assert [client.get("/v1/auth/me", headers=one).status_code for one in headers] == [401] * 5


def test_logouts_of_one_user_at_once_do_not_refuse_the_logout_of_another(
    acme: Organization, client: httpx.Client
) -> None:
    """All ends are in one Secret, so the logouts of a replica take turns."""
    hostile, viewer = acme.session_of(UserRole.VIEWER), acme.session_of(UserRole.VIEWER)
    with ThreadPoolExecutor(31) as pool:
        many = [hostile] * 15 + [viewer] + [hostile] * 15
        answers = list(pool.map(lambda one: client.post("/v1/auth/logout", headers=one).status_code, many))
    assert answers[15] == 204
    assert set(answers) <= {204, 401}


def test_a_new_role_counts_from_the_next_request_and_an_unknown_one_ends_the_session(
    acme: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """The role of the Secret counts, not that of the login."""
    headers = acme.session()
    path = "/v1/projects/billing/keys"
    assert client.post(path, json={"name": "a"}, headers=headers).status_code == 201

    def set_role(role: str) -> None:
        patch = {"stringData": {"role": role}}
        control_plane.objects.patch("Secret", user_secret_name(acme.email), USERS_NAMESPACE, patch)

    def refused(*words: str) -> bool:
        answer = client.post(path, json={"name": "a"}, headers=headers)
        return all(word in answer.text for word in words)

    for role, words in (("editor", ("admin", "editor")), ("viewer", ("admin", "viewer")), ("owner", ("401",))):
        set_role(role)
        eventually(lambda words=words: refused(*words), f"the role {role}")  # type: ignore[misc]
    problem_of(log_in(client, acme.email), 401)


def test_rotating_the_session_key_logs_nobody_out(
    acme: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """A newer key signs later tokens; tokens of the older key stay valid until that key is removed."""
    acme.session()
    old = token_of(log_in(client, acme.email))
    kid = f"k{int(time.time()) + 1000}"
    fresh = base64.b64encode(secrets.token_bytes(32)).decode()
    keys = ("Secret", SESSION_KEYS_NAME, USERS_NAMESPACE)
    control_plane.objects.patch(*keys, {"stringData": {kid: fresh}})

    def newest() -> str:
        return str(jwt.get_unverified_header(token_of(log_in(client, acme.email)))["kid"])

    try:
        eventually(lambda: newest() == kid, "the newest key signs")
        assert me(client, old) == 200
    finally:
        control_plane.objects.patch(*keys, {"data": {kid: None}})
    eventually(lambda: newest() != kid, "the removed key does not sign")


def test_a_hash_that_is_no_argon2_hash_lets_nobody_in(
    acme: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """A login is refused if a manual user Secret contains a plain password."""
    fields = {"email": "hand@example.com", "organization": acme.name, "passwordHash": "plain"}
    objects = control_plane.objects
    objects.create("Secret", "by-hand", USERS_NAMESPACE, type="hookwright.dev/user", stringData=fields)
    try:
        for _ in range(3):
            problem_of(log_in(client, "hand@example.com", "plain"), 401)
    finally:
        objects.delete("Secret", "by-hand", namespace=USERS_NAMESPACE)
