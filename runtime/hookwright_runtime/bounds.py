"""Pure: the bounds of one process, one line each. `Places` enforces them, and docs/bounds.md lists them."""

import sys
from typing import Final, NamedTuple

MIB: Final = 1024 * 1024
UNLIMITED: Final = sys.maxsize


class Bound(NamedTuple):
    """The bound of one resource that holders share.

    A request that has a place and one that waits count the same. Beyond the bound of its holder a request is refused
    with 429, beyond the bound of all holders with 503.

    Attributes:
        things: the counted things, in the plural; beginning with "of", the numbers are bytes.
        total: of all holders.
        each: of one holder.
        holder: the kind of a holder.
        reserved: the part of the total that only holders with nothing get.
        at_once: things that have a place at once, the others wait in turn.
        at_once_each: those of one holder.
        at_once_reserved: the part of ``at_once`` that only holders without a place get.
        about: sentences that the documentation adds.
        beyond: the words of the documentation for a refusal; empty: 429 and 503.
    """

    things: str
    total: int
    each: int
    holder: str = "namespace"
    reserved: int = 0
    at_once: int = UNLIMITED
    at_once_each: int = UNLIMITED
    at_once_reserved: int = 0
    about: str = ""
    beyond: str = ""

    def amount(self, number: int) -> str:
        """Return a number of things in words."""
        return f"{number // MIB} MiB" if self.things.startswith("of ") and number >= MIB else f"{number:,}"


TOKEN_REVIEWS: Final = Bound("reviews of tokens", 256, 64, "client address", reserved=64)
ACCESS_REVIEWS: Final = Bound(
    "reviews of permissions", 256, 64, "tenant", reserved=64,
    about="Of the path's namespace after a grant, otherwise of the caller's namespace.",
    beyond="a grant serves until it is 60 s old; otherwise 429, or 503 if all are in use",
)  # fmt: skip
EVENT_REQUESTS: Final = Bound("requests with events", 256, 64, reserved=64)
OTHER_REQUESTS: Final = Bound(
    "other requests", 128, 32, reserved=32,
    about="Replays, single deliveries, retries, settlements.",
)  # fmt: skip
REQUESTS_WITHOUT_GRANT: Final = Bound(
    "requests for a delivery", 128, 32, "caller", reserved=32,
    about="Also for its retry; of callers without a grant.",
)  # fmt: skip
LOG_READS: Final = Bound(
    "reads of the delivery log", UNLIMITED, 16, at_once_each=1,
    about="Also of statistics, and counts of a replay. Each examines at most 50,000 rows.",
)  # fmt: skip
SIGNINGS: Final = Bound("single deliveries whose signatures are computed again", UNLIMITED, 16, at_once_each=1)
POLLS: Final = Bound(
    "requests for messages", 256, 16, reserved=64,
    about="An answer has at most 1,000 messages, 1 MiB of bodies and 1 MiB of headers, or one message.",
)  # fmt: skip
CREDENTIAL_CHANGES: Final = Bound(
    "changes of credentials", 64, 16, reserved=16, at_once=8, at_once_each=2,
    about="Of `/v1`; the operator writes their Secrets.",
)  # fmt: skip
TESTS: Final = Bound("tests of endpoints", 64, 16, about="In the API and in the operator.")
TESTS_OF_ENDPOINT: Final = Bound("tests", UNLIMITED, 2, "webhook endpoint")
LOOKUPS: Final = Bound(
    "name look-ups", UNLIMITED, 280, at_once=256, at_once_each=24, at_once_reserved=128,
    beyond="an attempt waits for 1 s; then it is postponed and not counted, unless an older answer can be used",
)  # fmt: skip
CLAIMS: Final = Bound(
    "endpoints to claim for", UNLIMITED, UNLIMITED, at_once=64, beyond="its deliveries wait for a later claim"
)
TLS_CONTEXTS: Final = Bound(
    "TLS contexts to create", UNLIMITED, UNLIMITED, at_once=1,
    about="Of endpoints with `spec.tls`; 128 are kept.", beyond="its attempts wait, which is not counted",
)  # fmt: skip
RECONCILES: Final = Bound(
    "reconciles", UNLIMITED, UNLIMITED, at_once=16, at_once_each=8,
    about="Objects without a namespace count as one namespace.", beyond="its objects wait",
)  # fmt: skip
INTAKE_BODY_BYTES: Final = Bound(
    "of incomplete bodies of the intake", 128 * MIB, 32 * MIB, beyond="429 or 503, and the connection ends"
)
API_BODY_BYTES: Final = Bound(
    "of incomplete bodies of the API", 64 * MIB, 16 * MIB, "organization or client address",
    beyond="429 or 503, and the connection ends",
)  # fmt: skip
PARSING: Final = Bound(
    "JSON bodies to parse", 256, 64, "namespace, organization or client address", reserved=64, at_once=1,
    about="Each 256 KiB of a body count as one, so at most 64 MiB wait. Other requests run between two.",
)  # fmt: skip
OPERATOR_REQUESTS: Final = Bound(
    "requests to the operator", 200, 64, "organization", reserved=50,
    about="Of `/v1`, except tests and requests for messages.",
)  # fmt: skip
PASSWORDS: Final = Bound("checks of passwords", 128, 2, "client address", reserved=32, at_once=2)

BOUNDS: Final = tuple(value for value in globals().values() if isinstance(value, Bound))
"""All bounds, in the order of this file."""
