"""Certificates and keys of tenants in PEM. What is accepted here costs the event loop little in each handshake."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import Final, NoReturn

_MOST: Final = 512
"""Texts whose examination is remembered."""
_KEY_CHARACTERS: Final = 4096
"""A key of RSA with 4,096 bits has 3,300."""
_RSA_BITS: Final = 4096
"""A signature with 16,384 bits would cost the event loop more than a second."""


def trust(context: ssl.SSLContext, authorities: str) -> None:
    """Let a context trust certificates.

    Raises:
        ssl.SSLError: the text has no certificate, or one that cannot be read.
        ValueError: the text is empty.
    """
    # Comments between the certificates may have names of companies.
    context.load_verify_locations(cadata=authorities.encode("ascii", "ignore").decode())


def present(context: ssl.SSLContext, pair: str) -> None:
    """Let a context present a client certificate.

    Raises:
        ssl.SSLError: the certificate or the key cannot be read or used, or they do not fit.
        ValueError: the key has a password.
    """
    with _file(pair) as path:
        # Otherwise the library would ask the terminal for a password.
        context.load_cert_chain(path, password=_refuse_password)


@lru_cache(_MOST)
def has_certificates(text: str) -> bool:
    """Return whether a text has certificates, and all of them can be read."""
    if "ENCRYPTED" in text:
        # The library would ask the terminal for a password.
        return False
    try:
        trust(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), text)
    except (ssl.SSLError, ValueError):
        return False
    return True


@lru_cache(_MOST)
def examine(certificate: str, key: str) -> datetime | str:
    """Return when a client certificate ends, or in words why it cannot be used with its key."""
    if len(key) > _KEY_CHARACTERS:
        return f"tls.key has more than {_KEY_CHARACTERS:,} characters"
    if "PRIVATE KEY" in certificate:
        return "tls.crt must have certificates only; the key belongs in tls.key"
    # Imported here, because few installations need it.
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415

    try:
        first = load_pem_x509_certificate(certificate.encode())
        fault = _key_fault(first.public_key(), key)
        if not fault:
            present(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), f"{certificate}\n{key}")
            return first.not_valid_after_utc
    except (ssl.SSLError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        reason = str(getattr(error, "reason", "") or "not readable").replace("_", " ").lower()
        fault = f"tls.crt must have a certificate in PEM, and tls.key its key without a password ({reason})"
    return fault


def _key_fault(public_key: object, key: str) -> str:
    """Return why a key cannot be used, empty if it can.

    The key of RSA is not validated by the library, because its search for primes has no bound; its numbers are compared
    instead, because larger ones would make signatures slow.
    """
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    kinds = (rsa.RSAPublicKey, ec.EllipticCurvePublicKey, ed25519.Ed25519PublicKey, ed448.Ed448PublicKey)
    if not isinstance(public_key, kinds):
        return "the key must be one of RSA, an elliptic curve or Ed25519"
    if isinstance(public_key, rsa.RSAPublicKey) and public_key.key_size > _RSA_BITS:
        return f"a key of RSA has at most {_RSA_BITS:,} bits"
    private_key = load_pem_private_key(key.encode(), None, unsafe_skip_rsa_key_validation=True)
    if private_key.public_key() != public_key:
        return "tls.key is not the key of the first certificate in tls.crt"
    if isinstance(private_key, rsa.RSAPrivateKey):
        numbers = private_key.private_numbers()
        product = numbers.p * numbers.q
        if product != numbers.public_numbers.n or not (
            numbers.d < product and numbers.dmp1 < numbers.p and numbers.dmq1 < numbers.q and numbers.iqmp < numbers.p
        ):
            return "the numbers of tls.key do not fit"
    return ""


def _refuse_password() -> NoReturn:
    raise ValueError("the key has a password")


@contextmanager
def _file(content: str) -> Iterator[str]:
    """Yield the path of a file in memory, because the library reads keys from files only; no disk gets it."""
    with os.fdopen(os.memfd_create("pair"), "w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"
