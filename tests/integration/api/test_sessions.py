"""Users, login and sessions."""

import base64
import json
import secrets
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import jwt
from integration.api.conftest import StartApi
from support.api_processes import PASSWORD, Organization, problem_of, write_user
from support.json_lines import entries
from support.polling import eventually

from hookwright_crds.sessions import SESSION_KEYS_NAME, parse_session_keys
from hookwright_crds.users import UserRole, user_secret_name
from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE, ApiProcess
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
    told = answer.json()
    assert set(told) == {"token", "token_type", "expires_at", "tokenType", "expiresAt", "user"}
    assert told["tokenType"] == told["token_type"] == "Bearer"
    assert told["expiresAt"] == told["expires_at"]
    assert told["user"] == {"email": acme.email, "organization": acme.name, "role": "admin"}
    mine = client.get("/v1/auth/me", headers={"Authorization": f"Bearer {told['token']}"}).json()
    assert mine == {
        "email": acme.email,
        "organization": acme.name,
        "role": "admin",
        "projects": [{"name": "billing", "display_name": "Billing", "displayName": "Billing"}],
        "expires_at": told["expires_at"],
        "expiresAt": told["expires_at"],
    }


def test_email_is_compared_without_regard_to_case(acme: Organization, client: httpx.Client) -> None:
    """Users write addresses in upper or lower case."""
    acme.session()
    assert log_in(client, f" {acme.email.upper()} ").status_code == 200


def test_unknown_email_and_wrong_password_are_answered_alike_and_as_slowly(
    acme: Organization, client: httpx.Client
) -> None:
    """Neither the text nor the time of the answer shows whether an address has an account."""
    acme.session()
    durations: dict[str, list[float]] = {acme.email: [], "nobody@example.com": []}
    texts = set()
    for _ in range(8):
        for email, seen in durations.items():
            began = time.perf_counter()
            answer = log_in(client, email, "wrong")
            seen.append(time.perf_counter() - began)
            problem_of(answer, 401)
            texts.add(answer.text)
    assert len(texts) == 1
    # The fastest answer of each kind waited least for a processor.
    known, unknown = (min(seen) for seen in durations.values())
    assert 0.5 < known / unknown < 2


def test_a_changed_password_and_a_deleted_user_end_the_session(
    acme: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """A second hookwright-user or the deletion of the Secret makes the token invalid."""
    acme.session()
    before = token_of(log_in(client, acme.email))
    assert acme.name in write_user(control_plane, acme.name, acme.email, "another password")
    eventually(lambda: me(client, before) == 401, "ended by a new password")
    problem_of(log_in(client, acme.email), 401)
    after = token_of(log_in(client, acme.email, "another password"))
    assert me(client, after) == 200
    control_plane.kubectl("delete", "secret", user_secret_name(acme.email), "-n", SYSTEM_NAMESPACE)
    eventually(lambda: me(client, after) == 401, "ended with the user")


def test_a_logout_ends_all_sessions_of_the_user_on_every_replica_and_after_a_restart(
    acme: Organization, client: httpx.Client, start_api: StartApi, api: ApiProcess
) -> None:
    """The request after the logout gets a 401, and the next login is valid at once. Another user stays logged in."""
    other = acme.session_of(UserRole.VIEWER)["Authorization"].removeprefix("Bearer ")
    acme.session()
    _, replica = start_api({})
    tokens = [token_of(log_in(each, acme.email)) for each in (client, replica, client)]
    answer = client.post("/v1/auth/logout", headers={"Authorization": f"Bearer {tokens[0]}"})
    assert (answer.status_code, answer.content) == (204, b"")
    assert [me(client, token) for token in tokens] == [401, 401, 401]
    fresh = token_of(log_in(client, acme.email))
    assert [me(client, fresh), me(client, other)] == [200, 200]
    problem_of(client.post("/v1/auth/logout", headers={"Authorization": f"Bearer {tokens[0]}"}), 401)
    eventually(lambda: [me(replica, token) for token in tokens] == [401, 401, 401], "ended at the other replica")
    _, restarted = start_api({})
    assert [me(restarted, token) for token in (*tokens, fresh, other)] == [401, 401, 401, 200, 200]
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
    hostile, other = acme.session_of(UserRole.VIEWER), acme.session_of(UserRole.VIEWER)
    with ThreadPoolExecutor(31) as pool:
        many = [hostile] * 15 + [other] + [hostile] * 15
        answers = list(pool.map(lambda one: client.post("/v1/auth/logout", headers=one).status_code, many))
    assert answers[15] == 204
    assert set(answers) <= {204, 401}


def test_a_new_role_counts_from_the_next_request_and_an_unknown_one_ends_the_session(
    acme: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """The role of the Secret counts, not that of the login. A new password keeps the role."""
    headers = acme.session()
    path = "/v1/projects/billing/keys"
    assert client.post(path, json={"name": "a"}, headers=headers).status_code == 201
    secret = ("secret", user_secret_name(acme.email), "-n", SYSTEM_NAMESPACE)

    def refused(*words: str) -> bool:
        answer = client.post(path, json={"name": "a"}, headers=headers)
        return all(word in answer.text for word in words)

    for role, words in (("editor", ("admin", "editor")), ("viewer", ("admin", "viewer")), ("owner", ("401",))):
        control_plane.kubectl("patch", *secret, "--type=merge", "-p", json.dumps({"stringData": {"role": role}}))
        eventually(lambda words=words: refused(*words), f"the role {role}")  # type: ignore[misc]
    problem_of(log_in(client, acme.email), 401)
    control_plane.kubectl("patch", *secret, "--type=merge", "-p", json.dumps({"stringData": {"role": "viewer"}}))
    assert "as viewer" in write_user(control_plane, acme.name, acme.email, "a new password")
    user = eventually(lambda: log_in(client, acme.email, "a new password").json().get("user"), "the new password")
    assert user["role"] == "viewer"


def test_rotating_the_session_key_logs_nobody_out(
    acme: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """A newer key signs later tokens; tokens of the older key stay valid until that key is removed."""
    acme.session()
    old = token_of(log_in(client, acme.email))
    kid = f"k{int(time.time()) + 1000}"
    fresh = base64.b64encode(secrets.token_bytes(32)).decode()
    path = ("secret", SESSION_KEYS_NAME, "-n", SYSTEM_NAMESPACE)
    control_plane.kubectl("patch", *path, "--type=merge", "-p", json.dumps({"stringData": {kid: fresh}}))

    def newest() -> str:
        return str(jwt.get_unverified_header(token_of(log_in(client, acme.email)))["kid"])

    try:
        eventually(lambda: newest() == kid, "the newest key signs")
        assert me(client, old) == 200
    finally:
        control_plane.kubectl("patch", *path, "--type=merge", "-p", json.dumps({"data": {kid: None}}))
    eventually(lambda: newest() != kid, "the removed key does not sign")


def test_a_token_that_was_tampered_with_opens_nothing(
    acme: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """A forged signature, an unknown key, no signature and another algorithm get the same 401."""
    acme.session()
    token = token_of(log_in(client, acme.email))
    stored = json.loads(
        control_plane.kubectl("get", "secret", SESSION_KEYS_NAME, "-n", SYSTEM_NAMESPACE, "-o", "json").stdout
    )
    fields = {name: base64.b64decode(text).decode() for name, text in stored["data"].items()}
    [key, *_] = parse_session_keys(fields)
    claims = jwt.decode(token, options={"verify_signature": False})
    header = {"kid": key.kid}
    forged = [
        token[:-4] + "AAAA",
        jwt.encode(claims, secrets.token_bytes(32), algorithm="HS256", headers=header),
        jwt.encode(claims, key.secret, algorithm="HS256", headers={"kid": "k1"}),
        jwt.encode(claims, key.secret, algorithm="HS256"),
        jwt.encode(claims, "", algorithm="none", headers=header),
        jwt.encode(claims | {"exp": 1}, key.secret, algorithm="HS256", headers=header),
        jwt.encode(claims | {"aud": "other"}, key.secret, algorithm="HS256", headers=header),
        jwt.encode({"sub": claims["sub"]}, key.secret, algorithm="HS256", headers=header),
        "nonsense",
    ]
    assert me(client, jwt.encode(claims, key.secret, algorithm="HS256", headers=header)) == 200
    assert [me(client, each) for each in forged] == [401] * len(forged)


def test_a_session_lasts_as_long_as_the_setting_says(acme: Organization, start_api: StartApi) -> None:
    """With HOOKWRIGHT_SESSION_TTL=2s, a token is valid at first, and gets a 401 two seconds later."""
    _, brief = start_api({"HOOKWRIGHT_SESSION_TTL": "2s"})
    acme.session()
    token = token_of(log_in(brief, acme.email))
    assert me(brief, token) == 200
    eventually(lambda: me(brief, token) == 401, "expired", within=4)


def test_a_hash_that_is_no_argon2_hash_lets_nobody_in(
    acme: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """A login is refused if a manual user Secret contains a plain password."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "hookwright.dev/user",
        "metadata": {"name": "by-hand", "namespace": SYSTEM_NAMESPACE},
        "stringData": {"email": "hand@example.com", "organization": acme.name, "passwordHash": "plain"},
    }
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(secret))
    try:
        for _ in range(3):
            problem_of(log_in(client, "hand@example.com", "plain"), 401)
    finally:
        control_plane.kubectl("delete", "secret", "by-hand", "-n", SYSTEM_NAMESPACE)


def test_the_user_command_takes_no_password_on_the_command_line_and_none_that_is_empty() -> None:
    """Empty standard input causes an error message and a status other than 0."""
    argv = [sys.executable, "-m", "hookwright_api.create_user", "--organization", "acme", "--email", "a@example.com"]
    empty = subprocess.run(argv, input="", capture_output=True, text=True, check=False, timeout=30)
    assert empty.returncode == 1
    assert "standard input" in empty.stderr
    extra = subprocess.run(
        [*argv, "--password", "x"], input="x", capture_output=True, text=True, check=False, timeout=30
    )
    assert extra.returncode == 2
