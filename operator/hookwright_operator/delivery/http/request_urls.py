"""URLs that get requests, checked, and the origins that they name."""

from dataclasses import dataclass
from ipaddress import IPv4Address

from yarl import URL

from hookwright_operator.delivery.http.client import Origin
from hookwright_operator.delivery.http.error_messages import AttemptError
from hookwright_operator.delivery.http.guard import Guard, is_literal


@dataclass(frozen=True, slots=True)
class RequestUrls:
    """The rules of an installation for URLs that get requests.

    Attributes:
        guard: refuses hosts.
        allow_http: whether plain ``http://`` URLs are allowed.
    """

    guard: Guard
    allow_http: bool

    def checked(self, text: str) -> tuple[URL, Origin]:
        """Return a URL that may get requests, and its origin; the guard checks its addresses later.

        Raises:
            AttemptError: the URL is invalid, or plain http and that is not allowed.
            RefusedAddressError: the guard refuses the host.
        """
        url = _url(text)
        if url.scheme != "https" and not (url.scheme == "http" and self.allow_http):
            raise AttemptError(f"{url.scheme} URL refused: only https is allowed")
        origin = _origin(url)
        self.guard.check_host(origin.host)
        return url, origin


def _url(text: str) -> URL:
    # Unchanged byte for byte if no encoding is needed, because some receivers sign their query.
    as_written = text.isascii() and text.isprintable() and " " not in text
    try:
        url = URL(text, encoded=as_written)
        complete = bool(url.raw_host and url.port)
    except ValueError:
        complete = False
    if not complete or not _fit_for_a_line(f"{url.host_port_subcomponent}{url.raw_path_qs}"):
        raise AttemptError("invalid URL")
    if url.raw_user is not None:
        raise AttemptError("invalid URL: it has a user or password after //; put credentials into a header")
    return url


def _fit_for_a_line(text: str) -> bool:
    return text.isprintable() and " " not in text


def _origin(url: URL) -> Origin:
    host = url.raw_host or ""
    if is_literal(host) and ":" not in host:
        try:
            IPv4Address(host)
        except ValueError:
            # A number that only the C library accepts as an address, such as 2130706433 or 127.1.
            raise AttemptError("invalid URL: the host is neither a name nor an address in its usual form") from None
    if host.endswith(".."):
        host = host.rstrip(".") + "."
    return Origin(url.scheme == "https", host, url.port or 0)
