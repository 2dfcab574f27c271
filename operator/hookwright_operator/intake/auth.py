"""Authentication by TokenReview and authorization by RBAC.

TokenReview returns the user of a token and confirms the audience ``hookwright``. SubjectAccessReview returns whether
that user has the permission. An unclear answer is a refusal. While the API server is unavailable or too many reviews
are in progress, a grant younger than a minute still counts (see `review_cache.Keeping`), so that producers are not
rejected. A revocation is then delayed by the same time.

Reviews in progress are bounded for each tenant. A tenant creates as many ServiceAccounts as it likes, so these count as
their namespace. The API asks for the users of all tenants: its reviews count for the namespace of the path, as those
of every caller with a recent grant there.
"""

import asyncio
import base64
import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from hookwright_crds import GROUP, VERSION
from hookwright_operator.intake.review_cache import Keeping, ReviewAnswer, Reviews
from hookwright_runtime import bounds
from hookwright_runtime.connections import client_group
from hookwright_runtime.errors import KubeUnavailable
from hookwright_runtime.kubernetes import KubernetesClient
from hookwright_runtime.places import Places
from hookwright_runtime.problems import ProblemError
from hookwright_runtime.shelf import Shelf

AUDIENCE: Final = "hookwright"
TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

_REVIEW_SECONDS: Final = 5.0
"""Seconds for one review until the API server counts as unavailable."""
_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]{1,16384}=*)", re.IGNORECASE)
"""RFC 6750, section 2.1, with a bound on the length."""
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
"""The form of the names of namespaces and objects in Kubernetes."""


class Access(NamedTuple):
    """The permission that a request needs, in the terms of RBAC; an empty ``name``: every object of the namespace."""

    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        target = f' of "{self.name}"' if self.name else ""
        return f'{self.verb} {self.resource}/{self.subresource}{target} in namespace "{self.namespace}"'


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

    @property
    def holder(self) -> str:
        """What the caller counts as: a ServiceAccount as the group of its namespace, another user as its name."""
        if not self.username.startswith(_SERVICE_ACCOUNT):
            return self.username
        return _accounts_of(self.username.removeprefix(_SERVICE_ACCOUNT).partition(":")[0])


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
        keeping = keeping or Keeping()
        self._kube = kube
        self._wall = wall
        self._callers: Reviews[Producer | None] = Reviews(keeping, now=now)
        self._accesses: Reviews[bool] = Reviews(keeping, now=now)
        # Users and the accesses, without names, whose last review was a grant.
        self._admitted: Shelf[bool] = Shelf(keeping.size)
        self._token_reviews, self._access_reviews = Places(bounds.TOKEN_REVIEWS), Places(bounds.ACCESS_REVIEWS)

    async def permit(self, headers: Mapping[str, str], access: Access, client: str = "") -> Producer:
        """Return the bearer if it has the permission; ``headers`` by lowercase name, ``client`` its IP address.

        Raises:
            ProblemError: 401, 403, 429 or 503.
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
            ProblemError: 401; 429 or 503, too many tokens of this address, or of all, are in review.
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
            ProblemError: 403; 429 or 503, too many reviews for this caller or namespace, or for all, are in progress.
            KubeError: the API server cannot review the permission.
        """
        question = _with_valid_names(access)
        key = (caller.digest, question)
        if not await self._accesses.get(key, lambda: self._review_access(caller, question)):
            raise ProblemError(403, f"{caller.username} may not {access}; a Role or ClusterRole must grant it")

    def admits(self, caller: Producer, access: Access) -> bool:
        """Return whether the caller's last review of this access, for any name, was a grant.

        This is no authorization. It decides only whether a request counts for the namespace or for the caller: a denial
        ends it, so that a caller without the permission cannot use the places of a namespace.
        """
        return _any_name(caller, access) in self._admitted

    async def _review_header(self, authorization: str, digest: bytes, client: str) -> ReviewAnswer[Producer | None]:
        match = _BEARER.fullmatch(authorization)
        if match is None:
            raise _unauthenticated()
        holder = client_group(client)
        with await self._token_reviews.acquire(holder):
            return await self._review_token(match[1], digest, holder)

    async def _review_token(self, token: str, digest: bytes, holder: str) -> ReviewAnswer[Producer | None]:
        spec: dict[str, object] = {"token": token, "audiences": [AUDIENCE]}
        status = await self._review(TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", spec)
        user = status.get("user") or {}
        username = user.get("username")
        # An API server that does not support audiences omits them, so the audience is not confirmed.
        if status.get("authenticated") is not True or AUDIENCE not in (status.get("audiences") or ()) or not username:
            return ReviewAnswer(None, granted=False, holder=holder)
        subject: dict[str, object] = {"user": username}
        subject.update({name: user[name] for name in ("uid", "groups", "extra") if user.get(name)})
        caller = Producer(username, digest, subject)
        lifetime = expiry_of(token) - self._wall()
        return ReviewAnswer(caller, granted=True, holder=caller.holder, lifetime=lifetime)

    async def _review_access(self, caller: Producer, access: Access) -> ReviewAnswer[bool]:
        attributes = {name: value for name, value in access._asdict().items() if value}
        spec = {**caller.user, "resourceAttributes": {"group": GROUP, "version": VERSION, **attributes}}
        tenant = _accounts_of(access.namespace)
        with await self._access_reviews.acquire(tenant if self.admits(caller, access) else caller.holder):
            status = await self._review(ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
        key = _any_name(caller, access)
        if status.get("allowed") is not True or status.get("denied"):
            self._admitted.discard(key)
            return ReviewAnswer(value=False, granted=False, holder=caller.holder)
        self._admitted.keep(key, value=True, holder=tenant)
        # A caller gets grants only for namespaces in which it has rights, so its grants count for these.
        return ReviewAnswer(value=True, granted=True, holder=tenant)

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


def _with_valid_names(access: Access) -> Access:
    """Return the access that is reviewed instead of one with names that no object can have.

    Such a name may have thousands of characters, so it is neither cached nor sent to the API server. The review is that
    of all objects, or of all namespaces: as for an unknown object, only a caller without that right is refused.
    """
    namespace, name = (text if _NAME.fullmatch(text) else "" for text in (access.namespace, access.name))
    valid = namespace == access.namespace and name == access.name
    return access if valid else access._replace(namespace=namespace, name=name)


def _any_name(caller: Producer, access: Access) -> tuple[str, Access]:
    return caller.username, access._replace(name="")


def _accounts_of(namespace: str) -> str:
    """Return the group of all ServiceAccounts of a namespace, which no user can have as its name."""
    return f"system:serviceaccounts:{namespace}"


def _unauthenticated() -> ProblemError:
    """Return a 401 with the same text for every reason, so that an answer reveals nothing about a token."""
    return ProblemError(
        401,
        "a valid ServiceAccount token for the audience hookwright is needed, as Authorization: Bearer <token>",
        headers={"WWW-Authenticate": "Bearer"},
    )
