"""Pure: why an attempt failed, in plain words for the delivery log.

The words name hosts, addresses and status codes. They never quote a header, a secret, a URL's query
or what an exception happens to say, because they are shown to people and kept for weeks.
"""

import errno
import os
import socket
import ssl
from collections.abc import Iterator
from enum import StrEnum
from http import HTTPStatus
from typing import Final

import aiohttp

from hookwright_operator.errors import RefusedAddressError

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_ERRNO_WORDS: Final = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset",
    errno.EPIPE: "connection reset",
    errno.ECONNABORTED: "connection reset",
    errno.ENETUNREACH: "network unreachable",
    errno.EHOSTUNREACH: "host unreachable",
    errno.ETIMEDOUT: "connection timed out",
    errno.EMFILE: "too many open files in this process",
}
_UNKNOWN_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


class Step(StrEnum):
    """How far an attempt has come."""

    LOOKUP = "looking up the name"
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
    """Return the words for an attempt that ran into its timeout, in seconds."""
    return f"timed out after {timeout:g} s while {step}"


def fault_words(error: Exception, step: Step) -> str:
    """Return the words for what aiohttp, ssl or the socket raised, '' for what nobody expects."""
    # Innermost first: aiohttp's own subclasses of ssl's errors lack the attributes of these.
    for cause in reversed(list(_causes(error))):
        if words := _root_words(cause):
            return words
    return _client_words(error, step)


def _root_words(cause: BaseException) -> str:
    """Return the words for what says enough by itself, however it is wrapped."""
    match cause:
        case RefusedAddressError():
            return f"address refused: {cause}"
        case ssl.SSLCertVerificationError():
            return f"TLS: certificate verify failed: {cause.verify_message}"
        case ssl.SSLError():
            return f"TLS: {(cause.reason or 'handshake failed').replace('_', ' ').lower()}"
    return ""


def _client_words(error: Exception, step: Step) -> str:
    words = ""
    match error:
        case aiohttp.ClientConnectorDNSError():
            kind = "name not found" if error.os_error.errno in _UNKNOWN_NAME else "name lookup failed"
            words = f"{kind}: {error.host}"
        case aiohttp.ServerDisconnectedError():
            words = f"connection closed while {step}"
        case aiohttp.InvalidURL():
            words = "invalid URL: the host is neither a name nor an address in its usual form"
        case aiohttp.ClientResponseError():
            words = "invalid HTTP answer"
        case aiohttp.ClientPayloadError():
            words = "invalid HTTP answer: the body is malformed or cut short"
        case OSError():
            words = _socket_words(error, step)
        case aiohttp.ClientConnectionError():
            words = f"connection lost while {step}"
    return words


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and what it wraps, outermost first."""
    current: BaseException | None = error
    while current is not None:
        yield current
        current = getattr(current, "certificate_error", None) or getattr(current, "os_error", None) or current.__cause__


def _socket_words(error: OSError, step: Step) -> str:
    connected = step not in (Step.LOOKUP, Step.CONNECT)
    if error.errno is None:
        return f"connection closed while {step}" if connected else _unconnected_words(error)
    words = _ERRNO_WORDS.get(error.errno) or f"network error: {os.strerror(error.errno).lower()}"
    return f"{words} while {step}" if connected else words


def _unconnected_words(error: OSError) -> str:
    """Return the words for a connection that was not made and whose error has no errno."""
    if any(isinstance(cause, ConnectionError) for cause in _causes(error)):
        # What both event loops raise if the peer hangs up amid the handshake; they lose its alert, if it sent one.
        return "TLS: connection closed during the handshake"
    # aiohttp's way of saying that several addresses failed differently.
    return "cannot connect: no address of the host answers"
