"""The form of users and session keys, shared by operator, API and administrators."""

import base64
import json

import pytest

from hookwright_api.view.table_records import SessionKeysRecord, UserRecord
from hookwright_crds.sessions import (
    SessionKey,
    format_session_key,
    parse_session_keys,
    session_key_field,
)
from hookwright_crds.users import USER_TYPE, normal_email, user_secret


def test_the_newest_session_key_comes_first_and_others_still_verify() -> None:
    """Keys are sorted by the time in their names, not by text."""
    first, second = bytes(32), bytes([1]) * 32
    fields = {session_key_field(999): format_session_key(first), session_key_field(1000): format_session_key(second)}
    assert parse_session_keys(fields) == (SessionKey("k1000", 1000, second), SessionKey("k999", 999, first))


@pytest.mark.parametrize(
    "field", [{"k": "AA=="}, {"k1": "!"}, {"k1": "AA=="}, {"other": format_session_key(bytes(32))}]
)
def test_a_field_that_holds_no_session_key_is_passed_over(field: dict[str, str]) -> None:
    """An invalid field is ignored, and the valid keys stay usable."""
    good = {"k5": format_session_key(bytes(32))}
    assert [key.kid for key in parse_session_keys(field | good)] == ["k5"]


def test_a_session_key_is_not_in_its_own_text() -> None:
    """Neither logs nor tracebacks contain the key."""
    secret = b"0123456789abcdef0123456789abcdef"
    assert "0123" not in repr(SessionKey("k1", 1, secret))
    with pytest.raises(ValueError, match="32 bytes"):
        format_session_key(secret[:16])


def test_one_address_is_one_secret_however_it_is_written() -> None:
    """A second run changes the password and does not create a second user."""
    first = user_secret("sys", email="Ada@Example.com ", organization="acme", password_hash="h")
    second = user_secret("sys", email="ada@example.com", organization="acme", password_hash="h")
    assert first == second
    assert first["type"] == USER_TYPE


@pytest.mark.parametrize("email", ["", "ada", "@example.com", "ada@", "a da@example.com", "a@b" + "c" * 300])
def test_what_is_no_address_is_refused(email: str) -> None:
    """The error names the correct form."""
    with pytest.raises(ValueError, match="must be an address"):
        normal_email(email)


@pytest.mark.parametrize("organization", ["", "Acme", "a.b", "-a", "a" * 64])
def test_an_organization_that_is_no_namespace_is_refused(organization: str) -> None:
    """An organization without a possible namespace could never have a project."""
    with pytest.raises(ValueError, match="namespace"):
        user_secret("sys", email="a@b", organization=organization, password_hash="h")


def test_a_user_is_read_from_its_secret_and_shows_no_hash() -> None:
    """The fingerprint changes with the hash, and the record's text has neither."""
    secret = user_secret("sys", email="ada@example.com", organization="acme", password_hash="$argon2id$x")
    data = {name: base64.b64encode(text.encode()).decode() for name, text in secret.pop("stringData").items()}
    document = json.loads(json.dumps({**secret, "data": data}))
    user = UserRecord.of(document)
    assert (user.email, user.organization, user.password_hash) == ("ada@example.com", "acme", "$argon2id$x")
    assert "argon2" not in repr(user)
    document["data"]["passwordHash"] = base64.b64encode(b"$argon2id$y").decode()
    assert UserRecord.of(document).fingerprint != user.fingerprint
    del document["data"]["organization"]
    with pytest.raises(ValueError, match="organization"):
        UserRecord.of(document)


def test_session_keys_are_read_from_their_secret() -> None:
    """The content is base64 of Kubernetes around base64 of Hookwright."""
    text = base64.b64encode(format_session_key(bytes(32)).encode()).decode()
    document = {"metadata": {"name": "n", "namespace": "s"}, "data": {"k7": text, "bad": "%"}}
    assert [key.kid for key in SessionKeysRecord.of(document).keys] == ["k7"]
