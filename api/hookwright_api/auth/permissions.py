"""Pure: permissions of routes: the least role of a user, and the scope of a key."""

from dataclasses import dataclass
from typing import Final

from hookwright_api.auth.callers import Caller, Credential
from hookwright_crds.keys import KeyScope
from hookwright_crds.users import UserRole
from hookwright_runtime.problems import Code, ProblemError


@dataclass(frozen=True, slots=True)
class Permission:
    """What a caller of a route needs.

    Attributes:
        role: the least role of a session's user; None: the route accepts no session.
        scope: the scope of a key; None: the route accepts no key.
        open: the route needs no credential.
    """

    role: UserRole | None = None
    scope: KeyScope | None = None
    open: bool = False

    def __post_init__(self) -> None:
        if self.open == bool(self.role or self.scope):
            raise ValueError("a permission is open, or it has a role, a scope or both")

    @property
    def accepts(self) -> tuple[Credential, ...]:
        """The kinds of credential that may call; none if the route is open."""
        kinds = ((Credential.KEY, self.scope), (Credential.SESSION, self.role))
        return tuple(credential for credential, needed in kinds if needed is not None)

    def check(self, caller: Caller) -> None:
        """Return if the caller may call.

        Raises:
            ProblemError: 403 that names the accepted credential, or the missing scope or role.
        """
        if caller.credential not in self.accepts:
            sent, wanted = caller.credential.value, " or ".join(kind.value for kind in self.accepts)
            detail = f"this route does not accept {sent}; send {wanted}"
            raise ProblemError(403, detail, code=Code.WRONG_CREDENTIAL)
        if caller.key is not None:
            if self.scope not in caller.key.scopes:
                raise ProblemError(403, f"the key lacks the scope {self.scope}; it has {', '.join(caller.key.scopes)}")
            return
        if caller.user is None or self.role is None or not caller.user.role.includes(self.role):
            has = f"; the user has the role {caller.user.role}" if caller.user else ""
            raise ProblemError(403, f"this needs the role {self.role}{has}")


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
