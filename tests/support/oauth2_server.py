"""An OAuth2 server for client credentials: the server of oauthlib, as the answer of a receiver."""

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from aiohttp import web
from oauthlib.common import generate_token  # type: ignore[import-untyped]
from oauthlib.oauth2 import BackendApplicationServer, RequestValidator  # type: ignore[import-untyped]

from hookwright_dev.receiver import Received
from hookwright_operator.registry import OAuth2Client

CLIENT_ID = "hook wright:billing"
CLIENT_SECRET = "s3cret of the client: +/=&%41"


@dataclass(slots=True)
class _Client:
    client_id: str


class TokenServer(RequestValidator):  # type: ignore[misc]
    """One client with the scopes ``events`` and ``more``; its `answer` serves tokens, its `guard` a resource.

    Args:
        lifetime: seconds of a token.
        secret: of the client.
        secret_in_body: whether the secret must be a parameter; otherwise Basic authentication is required.
        new_token: makes a token; random by default.

    Attributes:
        ends: when each issued token ends, in seconds since the epoch.
    """

    def __init__(
        self,
        *,
        lifetime: int = 3600,
        secret: str = CLIENT_SECRET,
        secret_in_body: bool = False,
        new_token: Callable[[], str] = generate_token,
    ) -> None:
        super().__init__()
        self.ends: dict[str, float] = {}
        self._secret, self._secret_in_body = secret, secret_in_body
        self._server = BackendApplicationServer(self, token_generator=lambda _: new_token(), token_expires_in=lifetime)

    def answer(self, request: Received) -> web.Response:
        """Answer a request for a token."""
        url = f"https://auth.example.com{request.target}"
        headers, body, status = self._server.create_token_response(
            url, request.method, request.body.decode(), dict(request.headers)
        )
        return web.Response(status=status, text=body, headers=headers)

    def guard(self, request: Received) -> int:
        """Answer 200 to a request with a token that has not ended, and 401 to others."""
        headers = {"Authorization": request.headers.get("Authorization", "")}
        is_valid, _ = self._server.verify_request("https://api.example.com/", "POST", None, headers, ["events"])
        return 200 if is_valid else 401

    # ---- calls by oauthlib

    def authenticate_client(self, request: Any, *_: Any, **__: Any) -> bool:
        """Check the secret in the required form (RFC 6749, section 2.3.1)."""
        kind, _, text = request.headers.get("Authorization", "").partition(" ")
        names = base64.b64decode(text).decode().split(":") if kind == "Basic" else []
        pair = [unquote_plus(name) for name in names]
        if self._secret_in_body:
            pair = [request.client_id, request.client_secret]
        request.client = _Client(CLIENT_ID)
        return pair == [CLIENT_ID, self._secret]

    def validate_grant_type(self, *_: Any, **__: Any) -> bool:
        """Allow client credentials."""
        return True

    def get_default_scopes(self, *_: Any, **__: Any) -> list[str]:
        """Give a request without scopes none."""
        return []

    def validate_scopes(self, client_id: str, scopes: list[str], *_: Any, **__: Any) -> bool:
        """Allow the scopes of the client."""
        return client_id == CLIENT_ID and set(scopes) <= {"events", "more"}

    def save_bearer_token(self, token: dict[str, Any], *_: Any, **__: Any) -> None:
        """Keep a token."""
        self.ends[token["access_token"]] = time.time() + token["expires_in"]

    def validate_bearer_token(self, token: str | None, *_: Any, **__: Any) -> bool:
        """Whether a token was issued and has not ended."""
        return self.ends.get(token or "", 0.0) > time.time()


def client_of(url: str, *, secret: str = CLIENT_SECRET) -> OAuth2Client:
    """Return the client of a token server at a URL, as an endpoint has it."""
    form = {"grant_type": "client_credentials", "scope": "events more", "audience": "https://api.example.com"}
    return OAuth2Client(url, CLIENT_ID, secret, tuple(form.items()))
