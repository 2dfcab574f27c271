"""Who may call: a bearer token is reviewed by the API server, and RBAC alone decides what it may do.

TokenReview tells whose token it is and that it was made for the audience ``hookwright``;
SubjectAccessReview tells whether that user may do this. Whatever is unclear is a refusal. While the
API server is away, a grant younger than a minute still counts (see `reviews.Keeping`), so that its
restart costs producers nothing; a revocation then takes as long.
"""

import asyncio
import base64
import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from hookwright_operator.errors import KubeUnavailable
from hookwright_operator.intake.problems import ProblemError, unauthenticated, unavailable
from hookwright_operator.intake.reviews import Answer, Keeping, Reviews
from hookwright_runtime.quotas import Quotas

AUDIENCE: Final = "hookwright"
GROUP: Final = "hookwright.dev"
VERSION: Final = "v1alpha1"
TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

REVIEWS: Final = 256
TOKEN_REVIEWS_OF_ADDRESS: Final = 64
ACCESS_REVIEWS_OF_CALLER: Final = 128
"""Questions to the API server that are under way at once, of each kind. Answers that are kept cost none."""
_REVIEW_SECONDS: Final = 5.0
"""How long one review may take before the API server counts as away."""
_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]{1,16384}=*)", re.IGNORECASE)
"""RFC 6750, section 2.1, with a bound on the length."""


class Kube(Protocol):
    """What is needed of a client of the API server."""

    async def post(self, path: str, body: dict[str, object]) -> dict[str, Any]:
        """Create a review and return it with its status.

        Raises:
            KubeError: refused; KubeUnavailable: no answer.
        """


class Access(NamedTuple):
    """What a request wants to do, in the terms of RBAC; ``name`` is empty for every object of the namespace."""

    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        which = f' of "{self.name}"' if self.name else ""
        return f'{self.verb} {self.resource}/{self.subresource}{which} in namespace "{self.namespace}"'


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose token it is.

    Attributes:
        digest: SHA-256 of the header that carried the token, which stands for it in every cache.
        user: the user as SubjectAccessReview takes it: user, uid, groups, extra.
    """

    username: str
    digest: bytes = field(repr=False)
    user: dict[str, object] = field(repr=False)


class Auth(Protocol):
    """Tells who calls, and refuses what the caller may not do."""

    async def authenticate(self, authorization: str, client: str = "") -> Caller:
        """Return the caller.

        Args:
            authorization: the Authorization header, empty where there is none.
            client: IP address that the request came from.

        Raises:
            ProblemError: 401; 503, too many tokens of this address are being reviewed.
            KubeError: the API server cannot be asked.
        """

    async def authorise(self, caller: Caller, access: Access) -> None:
        """Let pass what the caller may do.

        Raises:
            ProblemError: 403; 503, too many questions about this caller are under way.
            KubeError: the API server cannot be asked.
        """


class ReviewAuth:
    """`Auth` by TokenReview and SubjectAccessReview."""

    def __init__(
        self,
        kube: Kube,
        *,
        keeping: Keeping | None = None,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Make one over a client.

        Args:
            kube: asks the API server.
            keeping: for how long answers hold.
            now: seconds that never go back, for the age of an answer.
            wall: seconds since the epoch, for the expiry of a token.
        """
        self._kube = kube
        self._wall = wall
        self._callers: Reviews[Caller | None] = Reviews(keeping or Keeping(), now=now)
        self._accesses: Reviews[bool] = Reviews(keeping or Keeping(), now=now)
        self._token_reviews = Quotas(total=REVIEWS, each=TOKEN_REVIEWS_OF_ADDRESS)
        self._access_reviews = Quotas(total=REVIEWS, each=ACCESS_REVIEWS_OF_CALLER)

    async def authenticate(self, authorization: str, client: str = "") -> Caller:
        """Return the caller; see `Auth`."""
        # The digest of the whole header: one that was reviewed before needs no second look at its form.
        digest = hashlib.sha256(authorization.encode()).digest()
        caller = await self._callers.get(digest, lambda: self._review_header(authorization, digest, client))
        if caller is None:
            raise unauthenticated()
        return caller

    async def authorise(self, caller: Caller, access: Access) -> None:
        """Let pass what the caller may do; see `Auth`."""
        key = (caller.digest, access)
        if not await self._accesses.get(key, lambda: self._review_access(caller, access)):
            raise ProblemError(403, f"{caller.username} may not {access}; a Role or ClusterRole must grant it")

    async def _review_header(self, authorization: str, digest: bytes, client: str) -> Answer[Caller | None]:
        match = _BEARER.fullmatch(authorization)
        if match is None:
            raise unauthenticated()
        with _review_of(self._token_reviews, client):
            return await self._review_token(match[1], digest)

    async def _review_token(self, token: str, digest: bytes) -> Answer[Caller | None]:
        spec: dict[str, object] = {"token": token, "audiences": [AUDIENCE]}
        status = await self._review(TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", spec)
        user = status.get("user") or {}
        username = user.get("username")
        # An API server that does not know audiences leaves them out: that is no proof.
        if status.get("authenticated") is not True or AUDIENCE not in (status.get("audiences") or ()) or not username:
            return Answer(None, granted=False)
        subject: dict[str, object] = {"user": username}
        subject.update({name: user[name] for name in ("uid", "groups", "extra") if user.get(name)})
        return Answer(Caller(username, digest, subject), granted=True, lifetime=expiry_of(token) - self._wall())

    async def _review_access(self, caller: Caller, access: Access) -> Answer[bool]:
        wanted = {name: value for name, value in access._asdict().items() if value}
        spec = {**caller.user, "resourceAttributes": {"group": GROUP, "version": VERSION, **wanted}}
        with _review_of(self._access_reviews, caller.username):
            status = await self._review(ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
        allowed = status.get("allowed") is True and not status.get("denied")
        return Answer(allowed, granted=allowed)

    async def _review(self, path: str, version: str, kind: str, spec: dict[str, object]) -> dict[str, Any]:
        try:
            async with asyncio.timeout(_REVIEW_SECONDS):
                review = await self._kube.post(path, {"apiVersion": version, "kind": kind, "spec": spec})
        except TimeoutError:
            raise KubeUnavailable(f"{kind}: no answer within {_REVIEW_SECONDS:g} s") from None
        status = review.get("status")
        return status if isinstance(status, dict) else {}


def expiry_of(token: str) -> float:
    """Return when a JWT says it expires, in seconds since the epoch; infinity where it says nothing.

    The signature is not checked here: the API server has done so before anyone asks.
    """
    try:
        _, claims, _ = token.split(".")
        expiry = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"]
    except (ValueError, KeyError, TypeError):
        return math.inf
    return float(expiry) if isinstance(expiry, int | float) else math.inf


@contextmanager
def _review_of(reviews: Quotas, holder: str) -> Iterator[None]:
    """Count a question to the API server for the time of a block.

    Raises:
        ProblemError: 503, too many are under way.
    """
    if reviews.take(holder) is not None:
        raise unavailable("too many credentials are being reviewed")
    try:
        yield
    finally:
        reviews.release(holder)


async def permit(auth: Auth, headers: Mapping[str, str], access: Access, client: str = "") -> None:
    """Let a request pass whose bearer may do this; ``headers`` by lowercase name, ``client`` its IP address.

    Raises:
        ProblemError: 401, 403 or 503.
        KubeError: the API server cannot be asked.
    """
    await auth.authorise(await auth.authenticate(headers.get("authorization", ""), client), access)
