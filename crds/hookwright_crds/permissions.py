"""Pure: what a caller of `/v1` needs for an operation: the least role of a user, and the scope of a key."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from hookwright_crds.keys import KeyScope
from hookwright_crds.users import UserRole


class Credential(Enum):
    """The two kinds of credential."""

    KEY = "an API key (X-Service-Key)"
    SESSION = "a session token (Authorization: Bearer)"


@dataclass(frozen=True, slots=True)
class Permission:
    """What a caller of an operation needs.

    Attributes:
        role: the least role of a session's user; None: the operation accepts no session.
        scope: the scope of a key; None: the operation accepts no key.
        open: the operation needs no credential.
    """

    role: UserRole | None = None
    scope: KeyScope | None = None
    open: bool = False

    def __post_init__(self) -> None:
        if self.open == bool(self.role or self.scope):
            raise ValueError("a permission is open, or it has a role, a scope or both")

    @property
    def accepts(self) -> tuple[Credential, ...]:
        """The kinds of credential that may call; none if the operation is open."""
        kinds = ((Credential.KEY, self.scope), (Credential.SESSION, self.role))
        return tuple(credential for credential, requirement in kinds if requirement is not None)


OPEN: Final = Permission(open=True)
"""Needs no credential."""
SEND: Final = Permission(scope=KeyScope.SEND)
"""Sends events."""
TEST: Final = Permission(UserRole.EDITOR, KeyScope.SEND)
"""Sends a test."""
READ: Final = Permission(UserRole.VIEWER, KeyScope.READ)
"""Reads objects or the delivery log."""
MANAGE: Final = Permission(UserRole.EDITOR, KeyScope.MANAGE)
"""Changes webhooks, or sends deliveries again."""
PULL: Final = Permission(UserRole.EDITOR, KeyScope.PULL)
"""Takes and acknowledges messages."""
ANY_USER: Final = Permission(UserRole.VIEWER)
"""Concerns the user of the session only, or reads what no key may read."""
EDIT: Final = Permission(UserRole.EDITOR)
"""Changes webhooks or reads their secrets, with a session only."""
ADMINISTER: Final = Permission(UserRole.ADMIN)
"""Changes keys or projects."""
