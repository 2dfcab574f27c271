"""TLS contexts of connections to receivers. Each verifies the receiver's certificate and its name; nothing skips it."""

import asyncio
import ssl
from typing import Final
from weakref import WeakValueDictionary

from hookwright_operator.delivery.http.certificates import present, trust
from hookwright_operator.delivery.http.error_messages import NoPlaceError
from hookwright_operator.registry import TlsIdentity
from hookwright_runtime.bounds import TLS_CONTEXTS
from hookwright_runtime.places import Places
from hookwright_runtime.shelf import Shelf

_CONTEXTS: Final = 128
"""TLS identities whose contexts are kept, and most contexts of one namespace that are in use; twice as many of all. One
with the system's authorities has 1 MB."""
_CIPHERS: Final = "@SECLEVEL=2:ECDH+AESGCM:ECDH+CHACHA20:ECDH+AES:!aNULL:!eNULL:!aDSS:!SHA1:!AESCCM"
"""Python's default without DHE: the receiver chooses its group, and a large one would stop the loop for a second."""


class TlsContexts:
    """One context for all endpoints without a TLS identity, and one for each identity.

    Args:
        system: the context of endpoints without an identity; None: it trusts the system's authorities.
    """

    def __init__(self, system: ssl.SSLContext | None = None) -> None:
        self._system = system or create_context()
        self._contexts: Shelf[ssl.SSLContext] = Shelf(_CONTEXTS)
        # By namespace and identity; connections hold them after they have left the shelf.
        self._living: WeakValueDictionary[tuple[str, str], ssl.SSLContext] = WeakValueDictionary()
        self._places = Places(TLS_CONTEXTS)

    async def context_of(self, identity: TlsIdentity | None, namespace: str) -> ssl.SSLContext:
        """Return the context of an identity, which counts for a namespace.

        Raises:
            OSError: no descriptor is left to create it.
            NoPlaceError: too many are in use.
        """
        if identity is None:
            return self._system
        key = namespace, identity.digest
        context = self._living.get(key)
        if context is None:
            with await self._places.acquire(namespace):
                context = self._living.get(key)
                if context is None:
                    self._check_place(namespace)
                    # To read the system's authorities takes 70 ms, for which the event loop must not wait.
                    context = self._living[key] = await asyncio.to_thread(create_context, identity)
        self._contexts.keep(key, context, namespace)
        return context

    def _check_place(self, namespace: str) -> None:
        of_namespace = sum(holder == namespace for holder, _ in self._living)
        if of_namespace >= _CONTEXTS or len(self._living) >= 2 * _CONTEXTS:
            raise NoPlaceError("tls_contexts", "a TLS context")


def create_context(identity: TlsIdentity | None = None) -> ssl.SSLContext:
    """Return a context for an identity, by default for endpoints without one; blocks."""
    if identity is not None and identity.authorities:
        # Not the default context, which from Python 3.13 refuses authorities without a key usage, such as
        # `openssl req -x509` makes them. Partial: a tenant may trust one intermediate authority only.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        trust(context, identity.authorities)
    else:
        context = ssl.create_default_context()
    if identity is not None and identity.pair:
        present(context, identity.pair)
    context.set_alpn_protocols(["http/1.1"])
    context.set_ciphers(_CIPHERS)
    # A receiver could otherwise demand one handshake after the other, below all limits of HTTP.
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context
