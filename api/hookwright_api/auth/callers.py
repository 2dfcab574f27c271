"""The caller of a request, from its headers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from hookwright_api.auth.api_keys import find_key
from hookwright_api.auth.session_tokens import Session, read_token
from hookwright_api.view.table_records import KeyRecord, UserRecord
from hookwright_api.view.view import View
from hookwright_runtime.problems import Code, ProblemError

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
        session: the session; None for a key.
    """

    organization: str
    key: KeyRecord | None = field(default=None, repr=False)
    session: Session | None = field(default=None, repr=False)

    @property
    def user(self) -> UserRecord | None:
        """The user of the session; None for a key."""
        return self.session.user if self.session else None

    @property
    def credential(self) -> Credential:
        """The kind of the credential."""
        return Credential.KEY if self.key else Credential.SESSION

    @property
    def actor(self) -> str:
        """The user or key, as the audit log and the annotation of created objects name it; no secret."""
        return f"key:{self.key.identity.name}" if self.key else f"user:{self.user.email if self.user else ''}"

    @property
    def credential_uid(self) -> str:
        """The uid of the ApiKey, or of the user's Secret."""
        record = self.key or self.user
        assert record is not None
        return record.identity.uid


def authenticate(view: View, headers: Callable[[str], list[str]], now: datetime, session_ttl: timedelta) -> Caller:
    """Return the caller.

    Args:
        view: used to look up credentials.
        headers: returns every header of a name.
        now: the present time.
        session_ttl: the lifetime of sessions.

    Raises:
        ProblemError: 401 with the same text for every invalid credential; 400 for two credentials.
    """
    keys, authorizations = headers(KEY_HEADER), headers("authorization")
    if len(keys) + len(authorizations) > 1:
        detail = f"send one credential: {KEY_HEADER} or Authorization, once"
        raise ProblemError(400, detail, code=Code.SEVERAL_CREDENTIALS)
    if keys:
        record = find_key(view, keys[0], now)
        if record is None:
            raise _unauthenticated()
        return Caller(record.identity.namespace, key=record)
    scheme, _, token = "".join(authorizations).partition(" ")
    session = read_token(view, token.strip(), now, session_ttl) if scheme.lower() == "bearer" else None
    if session is None:
        raise _unauthenticated()
    return Caller(session.user.organization, session=session)


def _unauthenticated() -> ProblemError:
    """Return a 401 with the same text for every reason, so that an answer reveals nothing about a credential."""
    return ProblemError(
        401,
        "a valid credential is needed: an API key as X-Service-Key, or a session token as Authorization: Bearer",
        headers={"WWW-Authenticate": 'Bearer realm="hookwright"'},
    )
