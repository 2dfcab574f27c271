"""API keys: their format, their checksum, and how they are compared."""

import hashlib
import hmac
import random
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwright_crds import keys
from hookwright_crds.keys import MalformedKeyError, digest, key_id_of, matches, mint

SEEDS = st.integers(min_value=0, max_value=2**64)
KEY_IDS = st.from_regex(keys.KEY_ID_PATTERN[:-1] + r"\Z")


def minted(seed: int, key_id: str | None = None) -> keys.MintedKey:
    """Return a key from a seeded source of randomness."""
    return mint(random.Random(seed).choice, key_id=key_id)


@given(SEEDS)
def test_a_minted_key_has_the_documented_form(seed: int) -> None:
    """A key is ``hw_<keyId>_<secret><checksum>`` with 12, 43 and 6 characters; a double click selects all of it."""
    assert re.fullmatch(r"hw_[a-z0-9]{12}_[0-9A-Za-z]{49}", minted(seed).plaintext)


@given(SEEDS, st.none() | KEY_IDS)
def test_a_minted_key_tells_its_id_and_has_its_digest(seed: int, key_id: str | None) -> None:
    """Every key that can be generated is accepted, also with a chosen id."""
    key = minted(seed, key_id)
    assert key_id_of(key.plaintext) == key.key_id
    assert key_id in {None, key.key_id}
    assert matches(key.plaintext, key.digest)
    assert re.fullmatch(keys.DIGEST_PATTERN, key.digest)
    assert len(key.digest) == keys.DIGEST_LENGTH


def test_every_character_at_every_place_matters() -> None:
    """Every other printable character at every position of one key is detected."""
    plaintext = minted(1).plaintext
    for place, character in enumerate(plaintext):
        for strange in set(string.printable) - {character}:
            with pytest.raises(MalformedKeyError):
                key_id_of(plaintext[:place] + strange + plaintext[place + 1 :])


@given(SEEDS, st.data())
def test_a_truncated_key_is_refused(seed: int, data: st.DataObject) -> None:
    """A key without its end or its beginning is refused."""
    plaintext = minted(seed).plaintext
    length = data.draw(st.integers(min_value=0, max_value=len(plaintext) - 1))
    for part in (plaintext[:length], plaintext[len(plaintext) - length :]):
        with pytest.raises(MalformedKeyError):
            key_id_of(part)


@given(st.text())
def test_any_text_is_a_key_or_malformed(text: str) -> None:
    """Every other text raises MalformedKeyError and no other exception."""
    with pytest.raises(MalformedKeyError):
        key_id_of(text)


@pytest.mark.parametrize("around", ["{}\n", " {}", "{} ", "\t{}", "{}\0"])
def test_a_key_with_anything_around_it_is_refused(around: str) -> None:
    """Extra characters are refused, also a trailing newline."""
    with pytest.raises(MalformedKeyError):
        key_id_of(around.format(minted(1).plaintext))


def test_an_error_or_a_repr_does_not_tell_the_key() -> None:
    """Neither the repr nor the error message contains the secret."""
    key = minted(1)
    with pytest.raises(MalformedKeyError) as error:
        key_id_of(key.plaintext[:-1])
    secret = key.plaintext.split("_")[2]
    assert secret[:8] not in str(error.value)
    assert secret[:8] not in repr(key)


@pytest.mark.parametrize("key_id", ["", "a_b", "Upper", "a.b", "-a", "a-", "a" * 64, "ü", "a\n"])
def test_a_key_is_not_minted_with_an_id_that_could_not_be_presented(key_id: str) -> None:
    """A key id that is not a DNS label is refused, because requests could not present the key."""
    with pytest.raises(ValueError, match="must be 1 to 63 of"):
        minted(1, key_id)


def test_the_secret_has_at_least_256_random_bits() -> None:
    """The secret has more than 256 random bits: 43 characters, each drawn from the whole alphabet of 62."""
    assert 62**keys.SECRET_LENGTH > 2**256
    draws = {character for seed in range(50) for character in minted(seed).plaintext.split("_")[2][:-6]}
    assert draws == set(string.ascii_letters + string.digits)


def test_a_digest_is_the_sha256_of_the_whole_key() -> None:
    """The digest equals the output of ``printf %s KEY | sha256sum``."""
    key = minted(1)
    assert key.digest == digest(key.plaintext) == f"sha256:{hashlib.sha256(key.plaintext.encode()).hexdigest()}"


@given(SEEDS, SEEDS)
def test_only_the_key_itself_matches_its_digest(seed: int, other: int) -> None:
    """Another well-formed key does not match."""
    assert matches(minted(seed).plaintext, minted(other).digest) is (minted(seed).plaintext == minted(other).plaintext)


@pytest.mark.parametrize("kept", ["", "sha256:", "sha256:é", "md5:00"])
def test_nothing_matches_a_digest_that_is_none(kept: str) -> None:
    """A missing or damaged digest matches no key and raises no error."""
    assert not matches(minted(1).plaintext, kept)


def test_digests_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is that of hmac.compare_digest of the two whole digests."""
    entries: list[tuple[bytes, bytes]] = []
    genuine = hmac.compare_digest

    def watched(first: bytes, second: bytes) -> bool:
        entries.append((first, second))
        return genuine(first, second)

    monkeypatch.setattr(hmac, "compare_digest", watched)
    key = minted(1)
    assert matches(key.plaintext, key.digest)
    assert entries == [(key.digest.encode(), key.digest.encode())]
