"""Certificates and keys of tenants in PEM, read by the TLS library that uses them in connections."""

import os
import ssl
from _ssl import _test_decode_cert  # type: ignore[attr-defined] # no other part of the library reads the end
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

_MOST: Final = 512
"""Texts whose examination is remembered."""
_KEY_CHARACTERS: Final = 4096
"""A key of RSA with 4,096 bits has 3,300. A signature with 16,384 bits would cost the event loop 200 ms."""


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
    """
    with _file(pair) as path:
        # Without a function that returns a password, here an empty one, the library would ask the terminal for it.
        context.load_cert_chain(path, password=str)


@lru_cache(_MOST)
def has_certificates(text: str) -> bool:
    """Return whether a text has certificates, and all of them can be read."""
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
    pair = f"{certificate}\n{key}"
    try:
        present(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), pair)
        with _file(pair) as path:
            return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(_test_decode_cert(path)["notAfter"])), UTC)
    except (ssl.SSLError, ValueError) as error:
        reason = str(getattr(error, "reason", "") or "not readable").replace("_", " ").lower()
    if reason == "key values mismatch":
        return "tls.key is not the key of the first certificate in tls.crt"
    return f"tls.crt must have a certificate in PEM, and tls.key its key without a password ({reason})"


@contextmanager
def _file(content: str) -> Iterator[str]:
    """Yield the path of a file in memory, because the library reads keys from files only; no disk gets it."""
    with os.fdopen(os.memfd_create("pair"), "w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"
