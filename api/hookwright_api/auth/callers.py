"""The caller of a request, from its headers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from hookwright_api.auth.api_keys import find_key
from hookwright_api.auth.session_tokens import read_token
from hookwright_api.view.table_records import KeyRecord, UserRecord
from hookwright_api.view.view import View
from hookwright_runtime.problems import ProblemError

KEY_HEADER = "X-Service-Key"


class Credential(Enum):
    """The two kinds of credential."""

    KEY = "an API key (X-Service-Key)"
    SESSION = "a session token (Authorization: Bearer)"


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request.

    Attributes:
        organization: the namespace.
        key: the API key, which gives access to one project; None for a session.
        user: the user of the session; None for a key.
        expires_at: when the session ends.
    """

    organization: str
    key: KeyRecord | None = field(default=None, repr=False)
    user: UserRecord | None = field(default=None, repr=False)
    expires_at: datetime | None = None

    @property
    def credential(self) -> Credential:
        """The kind of the credential."""
        return Credential.KEY if self.key else Credential.SESSION

    @property
    def credential_uid(self) -> str:
        """The uid of the ApiKey, or of the user's Secret."""
        record = self.key or self.user
        assert record is not None
        return record.identity.uid


def authenticate(view: View, header: Callable[[str], str | None], now: datetime) -> Caller:
    """Return the caller.

    Args:
        view: used to look up credentials.
        header: returns a header by its name.
        now: the present time.

    Raises:
        ProblemError: 401 with the same text for every invalid credential; 400 for two credentials.
    """
    key, authorization = header(KEY_HEADER), header("authorization")
    if key is not None and authorization is not None:
        raise ProblemError(400, f"send one credential: {KEY_HEADER}, or Authorization, not both")
    if key is not None:
        record = find_key(view, key, now)
        if record is None:
            raise _unauthenticated()
        return Caller(record.identity.namespace, key=record)
    scheme, _, token = (authorization or "").partition(" ")
    session = read_token(view, token.strip(), now) if scheme.lower() == "bearer" else None
    if session is None:
        raise _unauthenticated()
    return Caller(session.user.organization, user=session.user, expires_at=session.expires_at)


def _unauthenticated() -> ProblemError:
    """Return a 401 with the same text for every reason, so that an answer reveals nothing about a credential."""
    return ProblemError(
        401,
        "a valid credential is needed: an API key as X-Service-Key, or a session token as Authorization: Bearer",
        headers={"WWW-Authenticate": 'Bearer realm="hookwright"'},
    )
