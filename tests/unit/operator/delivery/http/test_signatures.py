"""Signatures, checked against openssl and the Standard Webhooks library."""

import base64
import hmac
import re
import subprocess
import time
from datetime import UTC, datetime
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook
from stripe import SignatureVerificationError, WebhookSignature

from hookwright_crds.endpoint_fields import ExtraSignature
from hookwright_operator.delivery.http.signatures import (
    hex_signature,
    new_secret,
    signature_headers,
    standard_signature,
)

SECRET = "whsec_" + base64.b64encode(b"the key of this receiver, 32 b.").decode()
OLDER = "whsec_" + base64.b64encode(b"the key before the rotation....").decode()
MESSAGE = "msg_01JD3ZZZZZZZZZZZZZZZZZZZZZ"
BODY = '{"type":"delivered","messageId":"m-1","note":"žluťoučký"}'.encode()

FORMS: tuple[Literal["stripe", "github", "hex"], ...] = ("stripe", "github", "hex")

secrets = st.binary(min_size=1, max_size=64).map(lambda key: "whsec_" + base64.b64encode(key).decode())


def test_hex_signature_is_what_openssl_prints() -> None:
    """The openssl command of docs/receivers.md, with the secret as written for its key, prints the same digest."""
    result = subprocess.run(
        ["openssl", "dgst", "-sha256", "-hmac", SECRET], input=BODY, capture_output=True, check=True
    ).stdout.decode()
    assert hex_signature(SECRET, BODY) == result.split("= ")[1].strip()


@given(secrets, st.text(), st.integers(min_value=0, max_value=2**37))
def test_standard_signature_is_what_the_library_makes(secret: str, text: str, timestamp: int) -> None:
    """The library of Standard Webhooks makes the same signature for every message."""
    expected = Webhook(secret).sign(MESSAGE, datetime.fromtimestamp(timestamp, UTC), text)
    assert standard_signature(secret, MESSAGE, timestamp, text.encode()) == expected


def test_headers_pass_the_library_with_either_secret_of_an_overlap() -> None:
    """A receiver with either secret accepts the message; X-Service-Signature is by the replaced one."""
    timestamp = int(datetime.now(UTC).timestamp())
    headers = signature_headers([SECRET, OLDER], MESSAGE, timestamp, BODY)
    assert Webhook(SECRET).verify(BODY, headers) == Webhook(OLDER).verify(BODY, headers)
    assert headers["webhook-signature"].count("v1,") == 2
    assert headers["X-Service-Signature"] == hex_signature(OLDER, BODY)
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == (MESSAGE, str(timestamp))


def test_the_newest_secret_makes_the_service_signature_of_a_tenant_s_secrets() -> None:
    """Their overlap has no known end, so the secret that the API shows is the one that verifies."""
    headers = signature_headers([SECRET, OLDER], MESSAGE, 1, BODY, by_newest=True)
    assert headers["X-Service-Signature"] == hex_signature(SECRET, BODY)
    assert headers["webhook-signature"] == signature_headers([SECRET, OLDER], MESSAGE, 1, BODY)["webhook-signature"]


def test_a_receiver_of_another_sender_verifies_its_form_with_either_secret_of_an_overlap() -> None:
    """Stripe's form has both secrets; the others have one value, by the secret of X-Service-Signature."""
    now = int(time.time())
    stripe, github, digest = (
        signature_headers([SECRET, OLDER], MESSAGE, now, BODY, extra=ExtraSignature(form=form, header="X-Old"))["X-Old"]
        for form in FORMS
    )
    for secret in (SECRET, OLDER):
        WebhookSignature.verify_header(BODY.decode(), stripe, secret, tolerance=300)
    assert (github, digest) == (f"sha256={hex_signature(OLDER, BODY)}", hex_signature(OLDER, BODY))
    with pytest.raises(SignatureVerificationError):
        WebhookSignature.verify_header(BODY.decode(), stripe, "another")


def test_rotating_twice_drops_the_first_secret_at_once() -> None:
    """No cache keeps a secret that the caller no longer passes."""
    third = new_secret(lambda count: b"3" * count)
    signature_headers([SECRET], MESSAGE, 1, BODY)
    signature_headers([OLDER, SECRET], MESSAGE, 1, BODY)
    headers = signature_headers([third, OLDER], MESSAGE, 1, BODY)
    assert headers["webhook-signature"].split() == [
        standard_signature(third, MESSAGE, 1, BODY),
        standard_signature(OLDER, MESSAGE, 1, BODY),
    ]
    assert headers["X-Service-Signature"] == hex_signature(OLDER, BODY)


@given(st.binary(min_size=1), st.integers(min_value=0))
def test_a_changed_byte_changes_both_signatures(body: bytes, position: int) -> None:
    """Neither signature is valid for any other body."""
    place = position % len(body)
    second = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
    assert hex_signature(SECRET, body) != hex_signature(SECRET, second)
    assert standard_signature(SECRET, MESSAGE, 1, body) != standard_signature(SECRET, MESSAGE, 1, second)


def test_new_secret_takes_32_bytes_from_the_given_source() -> None:
    """A secret is whsec_ and the base64 of exactly the 32 bytes from the source."""
    secret = new_secret(lambda count: bytes(range(count)))
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", secret)
    assert base64.b64decode(secret.removeprefix("whsec_")) == bytes(range(32))


@pytest.mark.parametrize("secret", ["whsec_???", "whsec_QUJ", "QUJDRA==", "plain words", "whsec_é"])
def test_the_secret_of_another_sender_is_the_key_as_it_is(secret: str) -> None:
    """Only base64 after whsec_ is decoded, so a library of Standard Webhooks takes the base64 of another secret."""
    headers = signature_headers([secret], MESSAGE, int(time.time()), BODY)
    assert headers["X-Service-Signature"] == hmac.digest(secret.encode(), BODY, "sha256").hex()
    Webhook(base64.b64encode(secret.encode()).decode()).verify(BODY, headers)


def test_signing_without_a_secret_is_refused() -> None:
    """Nothing is sent without a signature."""
    with pytest.raises(ValueError, match="at least one secret"):
        signature_headers([], MESSAGE, 1, BODY)
