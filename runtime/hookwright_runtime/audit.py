"""The audit log: one line for each act of a caller, with who did it and from where.

The lines do not depend on the log level. They contain names and ids, and no secret. A tenant that acts without end
cannot fill the log: its lines are bounded, and the number of the others is logged.
"""

import logging
from collections.abc import Sequence
from typing import Final

import structlog

from hookwright_runtime.log_bounds import LogBound

AT_ONCE: Final = 500
A_SECOND: Final = 20
"""Lines of one organization, at once and in the long run; the API permits it 1,000 requests a minute."""
DELIVERIES: Final = 50
"""Deliveries of one line; container runtimes split lines of more than 16 KiB."""
ANONYMOUS: Final = "failed logins"
"""The holder of lines whose author is not known, so that an attacker does not use up the lines of an organization."""


class AuditLog:
    """Writes audit lines within the allowance of each organization."""

    def __init__(self) -> None:
        self._bound = LogBound(burst=AT_ONCE, rate=A_SECOND, report=self._report)
        plain = logging.getLogger("hookwright.audit")
        plain.setLevel(logging.INFO)
        self._log = structlog.wrap_logger(plain, wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))

    def record(
        self,
        action: str,
        *,
        actor: str,
        client: str,
        organization: str,
        project: str = "",
        target: str = "",
        deliveries: Sequence[str] | None = None,
    ) -> None:
        """Log an act that succeeded.

        Args:
            action: the kind of object and what was done with it, such as ``key.create``.
            actor: ``user:<email>``, ``key:<name of the ApiKey>``, or the name of a Kubernetes user.
            client: the address from which the request came.
            organization: the namespace.
            project: of the object, if it has one.
            target: name or id of the object.
            deliveries: ids of the messages that a consumer settled. These lines have an allowance of their own, so
                that consumers do not use up the lines of other acts.
        """
        names = {"organization": organization, "project": project, "target": target}
        present = {name: value for name, value in names.items() if value}
        fields = {"action": action, "outcome": "success", "actor": actor, "client": client, **present}
        if deliveries is None:
            self._write(organization, **fields)
            return
        for start in range(0, len(deliveries), DELIVERIES):
            self._write(f"messages of {organization}", **fields, deliveries=deliveries[start : start + DELIVERIES])

    def login_failed(self, *, email: str, client: str) -> None:
        """Log a login with an unknown email or a wrong password."""
        self._write(ANONYMOUS, action="login", outcome="failure", actor=f"user:{email}", client=client)

    def _write(self, holder: str, **fields: object) -> None:
        if self._bound.allow(holder):
            self._log.info("audit", **fields)

    def _report(self, holder: str, count: int) -> None:
        self._log.warning("audit lines omitted, their number is bounded", holder=holder, lines=count)
