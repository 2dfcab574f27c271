"""Authentication by TokenReview and authorization by RBAC.

TokenReview returns the user of a token and confirms the audience ``hookwright``. SubjectAccessReview returns whether
that user has the permission. An unclear answer is a refusal. While the API server is unavailable, a grant younger than
a minute still counts (see `review_cache.Keeping`), so that its restart does not reject producers. A revocation is then
delayed by the same time.
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
from typing import Any, Final, NamedTuple

from hookwright_operator.intake.review_cache import Keeping, ReviewAnswer, Reviews
from hookwright_runtime.errors import KubeUnavailable
from hookwright_runtime.kubernetes import KubernetesClient
from hookwright_runtime.problems import ProblemError, unavailable
from hookwright_runtime.quotas import Quotas

AUDIENCE: Final = "hookwright"
GROUP: Final = "hookwright.dev"
VERSION: Final = "v1alpha1"
TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

REVIEWS: Final = 256
TOKEN_REVIEWS_OF_ADDRESS: Final = 64
ACCESS_REVIEWS_OF_CALLER: Final = 128
"""Concurrent questions of one caller to the API server, of each kind. A cached answer needs no question."""
_REVIEW_SECONDS: Final = 5.0
"""Seconds for one review until the API server counts as unavailable."""
_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]{1,16384}=*)", re.IGNORECASE)
"""RFC 6750, section 2.1, with a bound on the length."""


class Access(NamedTuple):
    """The permission that a request needs, in the terms of RBAC; an empty ``name``: every object of the namespace."""

    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        which = f' of "{self.name}"' if self.name else ""
        return f'{self.verb} {self.resource}/{self.subresource}{which} in namespace "{self.namespace}"'


@dataclass(frozen=True, slots=True)
class Producer:
    """The user of a token.

    Attributes:
        digest: SHA-256 of the header with the token, used as the key in every cache.
        user: the user in the form of SubjectAccessReview: user, uid, groups, extra.
    """

    username: str
    digest: bytes = field(repr=False)
    user: dict[str, object] = field(repr=False)


class ReviewAuth:
    """Authentication and authorization of callers by TokenReview and SubjectAccessReview."""

    def __init__(
        self,
        kube: KubernetesClient,
        *,
        keeping: Keeping | None = None,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Initialize with a client.

        Args:
            kube: sends the reviews to the API server.
            keeping: how long answers are cached.
            now: monotonic seconds; used to compute the age of an answer.
            wall: seconds since the epoch; used to check the expiry of a token.
        """
        self._kube = kube
        self._wall = wall
        self._callers: Reviews[Producer | None] = Reviews(keeping or Keeping(), now=now)
        self._accesses: Reviews[bool] = Reviews(keeping or Keeping(), now=now)
        self._token_reviews = Quotas(total=REVIEWS, each=TOKEN_REVIEWS_OF_ADDRESS)
        self._access_reviews = Quotas(total=REVIEWS, each=ACCESS_REVIEWS_OF_CALLER)

    async def permit(self, headers: Mapping[str, str], access: Access, client: str = "") -> Producer:
        """Return the bearer if it has the permission; ``headers`` by lowercase name, ``client`` its IP address.

        Raises:
            ProblemError: 401, 403 or 503.
            KubeError: the API server cannot review the token or the permission.
        """
        caller = await self.authenticate(headers.get("authorization", ""), client)
        await self.authorise(caller, access)
        return caller

    async def authenticate(self, authorization: str, client: str = "") -> Producer:
        """Return the caller.

        Args:
            authorization: the Authorization header, empty if there is none.
            client: IP address of the client.

        Raises:
            ProblemError: 401; 503, too many tokens of this address are in review.
            KubeError: the API server cannot review the token.
        """
        # The key is the digest of the whole header: a header with a cached review is not parsed again.
        digest = hashlib.sha256(authorization.encode()).digest()
        caller = await self._callers.get(digest, lambda: self._review_header(authorization, digest, client))
        if caller is None:
            raise _unauthenticated()
        return caller

    async def authorise(self, caller: Producer, access: Access) -> None:
        """Return if the caller has the permission.

        Raises:
            ProblemError: 403; 503, too many reviews for this caller are in progress.
            KubeError: the API server cannot review the permission.
        """
        key = (caller.digest, access)
        if not await self._accesses.get(key, lambda: self._review_access(caller, access)):
            raise ProblemError(403, f"{caller.username} may not {access}; a Role or ClusterRole must grant it")

    async def _review_header(self, authorization: str, digest: bytes, client: str) -> ReviewAnswer[Producer | None]:
        match = _BEARER.fullmatch(authorization)
        if match is None:
            raise _unauthenticated()
        with _review_of(self._token_reviews, client):
            return await self._review_token(match[1], digest)

    async def _review_token(self, token: str, digest: bytes) -> ReviewAnswer[Producer | None]:
        spec: dict[str, object] = {"token": token, "audiences": [AUDIENCE]}
        status = await self._review(TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", spec)
        user = status.get("user") or {}
        username = user.get("username")
        # An API server that does not support audiences omits them, so the audience is not confirmed.
        if status.get("authenticated") is not True or AUDIENCE not in (status.get("audiences") or ()) or not username:
            return ReviewAnswer(None, granted=False)
        subject: dict[str, object] = {"user": username}
        subject.update({name: user[name] for name in ("uid", "groups", "extra") if user.get(name)})
        return ReviewAnswer(Producer(username, digest, subject), granted=True, lifetime=expiry_of(token) - self._wall())

    async def _review_access(self, caller: Producer, access: Access) -> ReviewAnswer[bool]:
        wanted = {name: value for name, value in access._asdict().items() if value}
        spec = {**caller.user, "resourceAttributes": {"group": GROUP, "version": VERSION, **wanted}}
        with _review_of(self._access_reviews, caller.username):
            status = await self._review(ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
        allowed = status.get("allowed") is True and not status.get("denied")
        return ReviewAnswer(allowed, granted=allowed)

    async def _review(self, path: str, version: str, kind: str, spec: dict[str, object]) -> dict[str, Any]:
        try:
            async with asyncio.timeout(_REVIEW_SECONDS):
                review = await self._kube.post(path, {"apiVersion": version, "kind": kind, "spec": spec})
        except TimeoutError:
            raise KubeUnavailable(f"{kind}: no answer within {_REVIEW_SECONDS:g} s") from None
        status = review.get("status")
        return status if isinstance(status, dict) else {}


def expiry_of(token: str) -> float:
    """Return the expiry time of a JWT in seconds since the epoch; infinity if it has none.

    This function does not verify the signature, because the API server has already done so.
    """
    try:
        _, claims, _ = token.split(".")
        expiry = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"]
    except (ValueError, KeyError, TypeError):
        return math.inf
    return float(expiry) if isinstance(expiry, int | float) else math.inf


@contextmanager
def _review_of(reviews: Quotas, holder: str) -> Iterator[None]:
    """Count one question to the API server inside the context.

    Raises:
        ProblemError: 503, too many are in progress.
    """
    if reviews.take(holder) is not None:
        raise unavailable("too many credential reviews are in progress")
    try:
        yield
    finally:
        reviews.release(holder)


def _unauthenticated() -> ProblemError:
    """Return a 401 with the same text for every reason, so that an answer reveals nothing about a token."""
    return ProblemError(
        401,
        "a valid ServiceAccount token for the audience hookwright is needed, as Authorization: Bearer <token>",
        headers={"WWW-Authenticate": "Bearer"},
    )
