"""Access tokens of OAuth2 client credentials (RFC 6749, section 4.4), requested with the client of the deliveries.

A token is kept in memory only. One request at a time asks for the token of an endpoint; other attempts wait for it.
"""

import asyncio
import base64
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote_plus, urlencode

from pydantic_core import from_json

from hookwright_crds.urls import origin_of
from hookwright_operator.delivery.http.client import Client
from hookwright_operator.delivery.http.connection import READ_LIMIT, Exchange
from hookwright_operator.delivery.http.error_messages import (
    DeadlineError,
    TokenServerError,
    fault_words,
    own_fault,
    status_words,
    timeout_words,
)
from hookwright_operator.delivery.http.request_urls import RequestUrls
from hookwright_operator.registry import Endpoint, OAuth2Client
from hookwright_runtime.shelf import Shelf

LONGEST_REQUEST: Final = 10.0
"""Seconds of a request for a token, at most; also no longer than the endpoint's timeout."""
_TOKENS: Final = 4096
"""Tokens that are kept."""
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,8192}")
_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?")
_EARLY: Final = 60.0
"""A token is renewed so many seconds before its end, or after half of its time, if that is later."""
_LIFETIME: Final = 3600.0 + _EARLY
"""Seconds of a token without a known end."""
_LONGEST_LIFETIME: Final = 86_400.0
_LONGEST_PAUSE: Final = 30.0
"""Seconds without a request after one that failed; the first pause is a second, and each one doubles."""
_REFUSED_CLIENT: Final = frozenset({400, 401})
"""Statuses after which the secret is sent in the other form (RFC 6749, sections 2.3.1 and 5.2)."""


@dataclass(slots=True, eq=False)
class _Entry:
    """The token of one endpoint; times are seconds of the event loop's clock.

    Attributes:
        ask_at: no request for a token begins before then.
        fault: of the last request, empty if it succeeded.
        secret_in_body: whether the token server takes the secret as a parameter, and not as Basic authentication.
    """

    client: OAuth2Client
    token: str = ""
    ends_at: float = 0.0
    ask_at: float = 0.0
    fault: str = ""
    failures: int = 0
    secret_in_body: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class AccessTokens:
    """The tokens of all endpoints.

    Args:
        client: sends the requests.
        urls: checks the URLs of token servers.
        user_agent: value of the User-Agent header.
    """

    def __init__(self, client: Client, urls: RequestUrls, user_agent: str) -> None:
        self._client, self._urls, self._user_agent = client, urls, user_agent
        self._time = asyncio.get_running_loop().time
        self._entries: Shelf[_Entry] = Shelf(_TOKENS)

    async def get(self, endpoint: Endpoint, *, refused_token: str = "") -> str:
        """Return a token for an attempt to an endpoint with OAuth2; if the receiver refused one, return another one.

        A token whose renewal fails is used until it ends.

        Raises:
            TokenServerError: the token server gives none; its text has the server's host and the fault.
            NoPlaceError: there was no place for the name look-up.
            OSError: this process lacks a resource for the request.
        """
        client, entry = endpoint.oauth2, self._entries.find(endpoint.uid)
        assert client is not None
        if entry is None or entry.client != client:
            entry = _Entry(client)
            self._entries.keep(endpoint.uid, entry, endpoint.namespace)
        if refused_token and entry.token == refused_token:
            entry.token = ""
            entry.ask_at = entry.ask_at if entry.fault else 0.0
        if self._time() >= entry.ask_at:
            async with entry.lock:
                # Another attempt may have asked meanwhile. Its fault counts for all that waited.
                if self._time() >= entry.ask_at:
                    await self._renew(endpoint, entry)
        if not entry.token or (entry.fault and self._time() >= entry.ends_at):
            raise TokenServerError(entry.fault)
        return entry.token

    async def _renew(self, endpoint: Endpoint, entry: _Entry) -> None:
        try:
            token, lifetime = await self._request(endpoint, entry)
        except TokenServerError as error:
            pause = min(_LONGEST_PAUSE, 2.0 ** min(entry.failures, 10))
            entry.fault, entry.failures, entry.ask_at = str(error), entry.failures + 1, self._time() + pause
            return
        except Exception:
            # Attempts that waited do not ask one after the other.
            entry.fault, entry.ask_at = entry.fault or "no token could be requested", self._time() + 1.0
            raise
        now = self._time()
        entry.token, entry.fault, entry.failures = token, "", 0
        entry.ends_at, entry.ask_at = now + lifetime, now + max(lifetime - _EARLY, lifetime / 2)

    async def _request(self, endpoint: Endpoint, entry: _Entry) -> tuple[str, float]:
        """Return a new token, and for how many seconds it is valid."""
        seconds, words = min(endpoint.timeout, LONGEST_REQUEST), ""
        deadline, exchange = self._time() + seconds, Exchange(READ_LIMIT)
        try:
            await self._post(endpoint, entry, exchange, deadline)
            if exchange.status in _REFUSED_CLIENT:
                entry.secret_in_body, exchange = not entry.secret_in_body, Exchange(READ_LIMIT)
                await self._post(endpoint, entry, exchange, deadline)
            token = _parsed(exchange.body) if 200 <= exchange.status < 300 else None
        except DeadlineError:
            words = timeout_words(seconds, exchange.step)
        except Exception as error:
            words = fault_words(error, exchange.step)
            if own_fault(error) or not words:
                raise
        words = (status_words(exchange.status) if exchange.status else "") or words
        if words or token is None:
            host = origin_of(entry.client.token_url)[1]
            raise TokenServerError(f"token server {host}: {words or 'its answer has no bearer token'}")
        return token

    async def _post(self, endpoint: Endpoint, entry: _Entry, exchange: Exchange, deadline: float) -> None:
        client = entry.client
        url, origin = self._urls.checked(client.token_url)
        form, authorization = dict(client.form), ""
        if entry.secret_in_body:
            form |= {"client_id": client.client_id, "client_secret": client.secret}
        else:
            pair = f"{quote_plus(client.client_id)}:{quote_plus(client.secret)}".encode()
            authorization = f"Authorization: Basic {base64.b64encode(pair).decode()}\r\n"
        body = urlencode(form)
        head = (
            f"POST {url.raw_path_qs} HTTP/1.1\r\nHost: {url.host_port_subcomponent}\r\n"
            f"User-Agent: {self._user_agent}\r\nAccept: application/json\r\nAccept-Encoding: identity\r\n"
            f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n{authorization}\r\n"
        )
        await self._client.post(origin, ((head + body).encode(),), exchange, deadline, namespace=endpoint.namespace)


def _parsed(body: bytes) -> tuple[str, float] | None:
    """Return the token of an answer (RFC 6749, section 5.1) and its lifetime in seconds; None if it has none."""
    try:
        answer = from_json(body)
    except ValueError:
        return None
    if not isinstance(answer, dict):
        return None
    token, kind = answer.get("access_token"), answer.get("token_type", "bearer")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token) or str(kind).lower() != "bearer":
        return None
    lifetime = str(answer.get("expires_in", ""))
    seconds = float(lifetime) if _SECONDS.fullmatch(lifetime) else _LIFETIME
    return token, min(max(seconds, 1.0), _LONGEST_LIFETIME)
