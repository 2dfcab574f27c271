"""Keys and tokens against a view with prepared objects."""

import base64
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hookwright_api.auth import callers
from hookwright_api.auth.callers import find_key
from hookwright_api.auth.session_tokens import issue_token, milliseconds, read_token
from hookwright_api.view.view import View
from hookwright_crds.keys import KeyScope, MintedKey, matches, mint
from hookwright_crds.sessions import ENDED_SESSIONS_NAME, SESSION_KEYS_NAME, format_session_key
from hookwright_crds.users import UserRole, user_secret

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TTL = timedelta(hours=1)


def meta(name: str, namespace: str = "acme", version: int = 1, **more: Any) -> dict[str, Any]:
    """Return metadata."""
    uid = f"{namespace}-{name}-{version}"
    return {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(version), **more}


@pytest.fixture
def minted() -> MintedKey:
    """Return a key that is the same in every run."""
    return mint(random.Random(1).choice)


@pytest.fixture
def view() -> View:
    """Return a view with the project billing in acme and in rival."""
    new_view = View()
    for namespace in ("acme", "rival"):
        new_view.projects.put({"metadata": meta("billing", namespace), "spec": {}})
    return new_view


def api_key(minted: MintedKey, namespace: str = "acme", created: str = "2026-01-01T00:00:00Z", **spec: Any) -> Any:
    """Return an ApiKey with a digest that the operator has confirmed."""
    return {
        "metadata": meta(minted.key_id, namespace, creationTimestamp=created),
        "spec": {"projectRef": {"name": "billing"}, "digest": minted.digest, **spec},
        "status": confirmed(minted.digest),
    }


def confirmed(digest: str | None, status: str = "True", reason: str = "Usable") -> dict[str, Any]:
    """Return a status with a digest and the condition Ready."""
    ready = {"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {"keyId": "k", "digest": digest, "conditions": [ready]}


def test_a_key_is_found_by_its_id_and_checked_whole(view: View, minted: MintedKey) -> None:
    """Another key with the same id and a correct checksum is not valid."""
    view.keys.put(api_key(minted))
    assert find_key(view, minted.plaintext, NOW) is not None
    second = mint(random.Random(2).choice, key_id=minted.key_id)
    assert find_key(view, second.plaintext, NOW) is None
    for wrong in ("", "hw_", minted.plaintext[:-1], minted.plaintext + "x", minted.digest, "\u00e4"):
        assert find_key(view, wrong, NOW) is None


def test_the_work_for_a_key_does_not_grow_with_the_apikeys_of_its_id(
    view: View, minted: MintedKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 50 ApiKeys with one id in 50 namespaces, a wrong key is compared with none, and a right one with its own."""
    for number in range(50):
        key = mint(random.Random(100 + number).choice, key_id=minted.key_id)
        view.keys.put(api_key(key, f"tenant-{number}"))
    view.keys.put(api_key(minted))
    comparisons = list[str]()

    def compare(presented: str, digest: str) -> bool:
        comparisons.append(digest)
        return matches(presented, digest)

    monkeypatch.setattr(callers, "matches", compare)
    wrong = mint(random.Random(2).choice, key_id=minted.key_id)
    assert find_key(view, wrong.plaintext, NOW) is None
    assert comparisons == []
    assert find_key(view, minted.plaintext, NOW) is not None
    assert comparisons == [minted.digest]


def test_expiry_is_judged_at_the_moment_of_use(view: View, minted: MintedKey) -> None:
    """A key expires to the second, independent of its status."""
    view.keys.put(api_key(minted, expiresAt="2026-01-01T00:00:10Z"))
    assert find_key(view, minted.plaintext, NOW + timedelta(seconds=9)) is not None
    assert find_key(view, minted.plaintext, NOW + timedelta(seconds=10)) is None


def test_of_two_objects_with_the_same_digest_the_older_counts(view: View, minted: MintedKey) -> None:
    """The order of the watch events does not matter."""
    view.keys.put(api_key(minted, "rival", "2026-01-01T00:00:05Z"))
    view.keys.put(api_key(minted, "acme", "2026-01-01T00:00:04Z"))
    record = find_key(view, minted.plaintext, NOW)
    assert record is not None
    assert record.identity.namespace == "acme"


UNCONFIRMED: dict[str, Any] = {
    "the operator has not seen it": {},
    "the digest is another ApiKey's": confirmed(None, "False", "DuplicateDigest"),
    "a digest is in the status, but the key is not ready": confirmed("sha256:" + "0" * 64, "False"),
    "another digest was confirmed": confirmed("sha256:" + "0" * 64),
}


@pytest.mark.parametrize("status", UNCONFIRMED.values(), ids=UNCONFIRMED.keys())
def test_a_key_that_the_operator_did_not_confirm_opens_nothing(
    view: View, minted: MintedKey, status: dict[str, Any]
) -> None:
    """An unconfirmed key is not valid, alone or together with a younger confirmed ApiKey, which is valid."""
    view.keys.put({**api_key(minted, "rival"), "status": status})
    assert find_key(view, minted.plaintext, NOW) is None
    view.keys.put(api_key(minted, "acme", "2026-01-01T00:00:09Z"))
    record = find_key(view, minted.plaintext, NOW)
    assert record is not None
    assert record.identity.namespace == "acme"


def test_a_key_has_the_scopes_that_its_object_names(view: View, minted: MintedKey) -> None:
    """A key without scopes has all; a key with a scope that this version does not know is not valid."""
    for version, (scopes, expected) in enumerate(
        [(None, tuple(KeyScope)), (["manage", "send"], (KeyScope.SEND, KeyScope.MANAGE)), (["send", "billing"], None)],
        2,
    ):
        resource = api_key(minted)
        resource["spec"] |= {} if scopes is None else {"scopes": scopes}
        resource["metadata"]["resourceVersion"] = str(version)
        view.keys.put(resource)
        record = find_key(view, minted.plaintext, NOW)
        assert (record.scopes if record else None) == expected


def test_a_replaced_key_is_valid_until_its_end(view: View) -> None:
    """The new and the old key of one ApiKey have the same id. A declared digest has no replaced keys."""
    old, new = (mint(random.Random(seed).choice, key_id="k7q") for seed in (1, 2))
    end = NOW + timedelta(hours=1)
    status = {
        **confirmed(new.digest),
        "keyId": "k7q",
        "previous": [{"digest": old.digest, "until": "2026-01-01T01:00:00Z"}],
    }
    spec = {"projectRef": {"name": "billing"}, "handover": {"secretName": "s"}, "rotation": 1}
    view.keys.put({"metadata": meta("ci", version=2), "spec": spec, "status": status})
    assert find_key(view, old.plaintext, end - timedelta(seconds=1)) is not None
    assert find_key(view, old.plaintext, end) is None
    assert find_key(view, new.plaintext, end) is not None
    manifest = {"projectRef": {"name": "billing"}, "digest": new.digest}
    view.keys.put({"metadata": meta("k7q", version=3), "spec": manifest, "status": status})
    view.keys.remove({"metadata": meta("ci", version=2)})
    assert find_key(view, old.plaintext, NOW) is None
    assert find_key(view, new.plaintext, NOW) is not None


def test_a_key_without_a_project_or_without_a_digest_opens_nothing(view: View, minted: MintedKey) -> None:
    """The key is not valid if the project was deleted, or if the operator has not yet created the key."""
    view.keys.put(api_key(minted))
    view.projects.remove({"metadata": meta("billing")})
    assert find_key(view, minted.plaintext, NOW) is None
    spec = {"projectRef": {"name": "billing"}, "handover": {"secretName": "s"}}
    view.keys.put({"metadata": meta("h", "rival"), "spec": spec, "status": {"keyId": minted.key_id}})
    assert find_key(view, minted.plaintext, NOW) is None


def put_user(
    view: View, password_hash: str, version: int, organization: str = "acme", role: bytes | None = b"admin"
) -> None:
    """Write a user's Secret into the view."""
    secret = user_secret("sys", email="a@example.com", organization=organization, password_hash=password_hash)
    data = {name: base64.b64encode(text.encode()).decode() for name, text in secret.pop("stringData").items()}
    del data["role"]
    if role is not None:
        data["role"] = base64.b64encode(role).decode()
    view.users.put({**secret, "metadata": meta("user", "sys", version), "data": data})


ROLES: dict[str, tuple[bytes | None, UserRole | None]] = {
    "no role": (None, UserRole.ADMIN),
    "a role": (b"viewer", UserRole.VIEWER),
    "a role with a line break": (b"editor\n", UserRole.EDITOR),
    "an empty role": (b"", None),
    "an unknown role": (b"owner", None),
    "capitals": (b"Admin", None),
    "binary data": (b"\xff\xfe", None),
}


@pytest.mark.parametrize(("written", "expected"), ROLES.values(), ids=ROLES.keys())
def test_a_user_has_the_role_of_the_secret_and_without_one_is_an_admin(
    view: View, written: bytes | None, expected: UserRole | None
) -> None:
    """A user with a role that this version does not know cannot log in."""
    put_user(view, "h1", 1, role=written)
    user = view.user("a@example.com")
    assert (user.role if user else None) == expected


def put_session_keys(view: View, *made_at: int) -> None:
    """Write session keys into the view."""
    view._users_namespace = "sys"
    data = {f"k{time}": base64.b64encode(format_session_key(time.to_bytes(32)).encode()).decode() for time in made_at}
    view._session_keys.put({"metadata": meta(SESSION_KEYS_NAME, "sys", max(made_at)), "data": data})


def token_of(view: View) -> str:
    """Return a token of the user, valid for an hour."""
    user = view.user("a@example.com")
    assert user is not None
    return issue_token(view, user, now=NOW, ttl=TTL)[0]


def test_a_session_ends_with_its_time_its_password_its_user_and_its_key(view: View) -> None:
    """Each of the four ends the session separately; a newer signing key does not."""
    put_user(view, "h1", 1)
    put_session_keys(view, 1)
    token = token_of(view)
    assert read_token(view, token, NOW + timedelta(minutes=59), TTL) is not None
    assert read_token(view, token, NOW + timedelta(minutes=60), TTL) is None
    put_session_keys(view, 1, 2)
    assert read_token(view, token, NOW, TTL) is not None
    put_user(view, "h2", 2)
    assert read_token(view, token, NOW, TTL) is None
    put_user(view, "h1", 3)
    assert read_token(view, token, NOW, TTL) is not None
    put_session_keys(view, 3)
    assert read_token(view, token, NOW, TTL) is None


def test_the_organization_is_the_users_of_now_and_not_the_tokens(view: View) -> None:
    """A moved user loses the old organization at once, not after 12 hours."""
    put_user(view, "h1", 1)
    put_session_keys(view, 1)
    token = token_of(view)
    put_user(view, "h1", 2, organization="rival")
    session = read_token(view, token, NOW, TTL)
    assert session is not None
    assert session.user.organization == "rival"


def put_ends(view: View, version: int, **ends: str) -> None:
    """Write the ends of sessions into the view."""
    data = {name: base64.b64encode(text.encode()).decode() for name, text in ends.items()}
    view.ended_sessions.put({"metadata": meta(ENDED_SESSIONS_NAME, "sys", version), "data": data})


def test_a_logout_ends_the_tokens_until_then_and_a_later_login_is_valid(view: View) -> None:
    """The login counts as later, also if the clock of its replica is slow. Other users keep their sessions."""
    put_user(view, "h1", 1)
    put_session_keys(view, 1)
    token = token_of(view)
    now = milliseconds(NOW)
    put_ends(view, 2, user=str(now - 1), other=str(now + 5000))
    assert read_token(view, token, NOW, TTL) is not None
    put_ends(view, 3, user=str(now))
    assert read_token(view, token, NOW, TTL) is None
    put_ends(view, 4, user=str(now + 5000))
    assert read_token(view, token, NOW, TTL) is None
    later = read_token(view, token_of(view), NOW, TTL)
    assert later is not None
    assert later.issued_ms == now + 5001
    put_ends(view, 5, user="soon")
    assert read_token(view, token_of(view), NOW, TTL) is None


def test_a_shorter_lifetime_counts_for_present_tokens(view: View) -> None:
    """A token that is older than the present lifetime has expired."""
    put_user(view, "h1", 1)
    put_session_keys(view, 1)
    token = token_of(view)
    quarter = timedelta(minutes=15)
    assert read_token(view, token, NOW + quarter - timedelta(seconds=1), quarter) is not None
    assert read_token(view, token, NOW + quarter, quarter) is None
