"""The reasons of failed attempts as text for the delivery log.

The texts name hosts, addresses and status codes. They never quote a header, a secret, a URL's query or the
text of an exception, because users read them and the store keeps them for weeks.
"""

import errno
import os
import socket
import ssl
from enum import StrEnum
from http import HTTPStatus
from typing import Final

from hookwright_runtime.errors import RefusedAddressError

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_ERRNO_WORDS: Final = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset",
    errno.EPIPE: "connection reset",
    errno.ECONNABORTED: "connection reset",
    errno.ENOTCONN: "connection reset",
    errno.ENETUNREACH: "network unreachable",
    errno.EHOSTUNREACH: "host unreachable",
    errno.ETIMEDOUT: "connection timed out",
    errno.EMFILE: "too many open files in this process",
}
NOT_FOUND: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})
"""The resolver's error codes for a name that has no address."""
_OWN_FAULTS: Final = {
    errno.EMFILE: "descriptors",
    errno.ENFILE: "descriptors",
    errno.ENOBUFS: "memory",
    errno.ENOMEM: "memory",
    socket.EAI_MEMORY: "memory",
    errno.EADDRNOTAVAIL: "ports",
}


TOKEN_SERVER: Final = "token_server"  # noqa: S105 - a reason
"""The reason of attempts that wait because the token server of their endpoint fails."""


class AttemptError(Exception):
    """An attempt that cannot be made or got no usable response; the message is fit for the delivery log."""


class TokenServerError(AttemptError):
    """A request for an access token that failed; the receiver is not to blame."""

    reason = TOKEN_SERVER


class DeadlineError(Exception):
    """An attempt that exceeded its timeout."""


class NoPlaceError(Exception):
    """A look-up or a TLS context that got no place.

    Attributes:
        reason: ``namespace_lookups`` if the namespace uses all its places for look-ups, ``lookups`` if all together do,
            ``tls_contexts`` for a context.
    """

    def __init__(self, reason: str, thing: str = "a name look-up") -> None:
        super().__init__(f"no place for {thing}")
        self.reason = reason


class ProxyError(Exception):
    """A fault of the egress proxy itself, not of the receiver."""

    reason = "proxy"


class Step(StrEnum):
    """Steps of an attempt, in order."""

    LOOKUP = "looking up the name"
    PROXY = "connecting to the egress proxy"
    CONNECT = "connecting"
    ANSWER = "waiting for the answer"
    BODY = "reading the answer"


def status_words(status: int) -> str:
    """Return why an HTTP status is a failure, '' for 2xx."""
    if 200 <= status < 300:
        return ""
    if status in _REDIRECTS:
        return f"redirect not followed (HTTP {status})"
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def timeout_words(timeout: float, step: Step) -> str:
    """Return the text for an attempt that exceeded its timeout, in seconds."""
    return f"timed out after {timeout:g} s while {step}"


def own_fault(error: BaseException) -> str:
    """Return what an attempt lacked before the receiver could answer, '' if the attempt failed for another reason.

    That is a resource of this installation, or an access token. Such a fault tells nothing about the receiver. The
    values are those of ``hookwright_own_faults_total``'s label. ``EADDRNOTAVAIL`` counts as a lack of local ports,
    because the client has already excluded an address family without a route.
    """
    match error:
        case NoPlaceError() | ProxyError() | TokenServerError():
            return error.reason
        case MemoryError():
            return "memory"
        case ssl.SSLError():
            return ""
        case OSError():
            return _OWN_FAULTS.get(error.errno or 0, "")
    return ""


def lookup_words(error: OSError, host: str) -> str:
    """Return the text for an error of a look-up."""
    return f"name not found: {host}" if error.errno in NOT_FOUND else f"name lookup failed: {host}"


def fault_words(error: Exception, step: Step) -> str:
    """Return the text for an error of the client, ssl or the socket, '' for an unexpected error."""
    words = ""
    match error:
        case AttemptError() | NoPlaceError() | ProxyError():
            words = str(error)
        case RefusedAddressError():
            words = f"address refused: {error}"
        case ssl.SSLCertVerificationError():
            words = f"TLS: certificate verify failed: {error.verify_message}"
        case ssl.SSLError():
            words = f"TLS: {(error.reason or 'handshake failed').replace('_', ' ').lower()}"
        case OSError():
            words = _socket_words(error, step)
    return words


def _socket_words(error: OSError, step: Step) -> str:
    is_connected = step not in (Step.LOOKUP, Step.PROXY, Step.CONNECT)
    if error.errno is None:
        return f"connection closed while {step}" if is_connected else _unconnected_words(error)
    words = _ERRNO_WORDS.get(error.errno) or f"network error: {os.strerror(error.errno).lower()}"
    return f"{words} while {step}" if is_connected else words


def _unconnected_words(error: OSError) -> str:
    """Return the text for a connection that was not made and whose error has no errno."""
    if isinstance(error, ConnectionError):
        # Both event loops raise this if the peer closes during the handshake. The TLS alert, if there was one, is lost.
        return "TLS: connection closed during the handshake"
    # aiohappyeyeballs raises an error without errno if several addresses failed for different reasons.
    return "cannot connect: no address of the host answers"
