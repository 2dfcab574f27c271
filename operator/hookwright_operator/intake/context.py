"""What the routes of the intake share: the services, the checks of callers, and the places of requests."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from starlette.requests import Request
from starlette.types import Scope

from hookwright_crds.documents.forms import Request as Document
from hookwright_crds.operations import Right
from hookwright_operator.intake.auth import Access, Producer, ReviewAuth
from hookwright_operator.registry import Endpoint
from hookwright_operator.services import IntakeServices
from hookwright_runtime import bounds
from hookwright_runtime.places import Places
from hookwright_runtime.problems import ProblemError, not_found
from hookwright_runtime.request_body import Bodies, parsing_places
from hookwright_runtime.validation import body_of

D = TypeVar("D", bound=Document)


def headers_of(scope: Scope) -> dict[str, str]:
    """Return a request's headers by lowercase name; of a repeated header, the last."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def client_of(scope: Scope) -> str:
    """Return the IP address of the client of a request; empty if it is not known."""
    client: tuple[str, int] | None = scope.get("client")
    return client[0] if client else ""


@dataclass(frozen=True, slots=True)
class IntakeContext:
    """The context of a request.

    Attributes:
        places: of requests that use the store.
        reads: of the delivery log, in turn; a page keeps its place until its answer is sent.
        signings: of single deliveries; apart from the reads, because a page waits for a slow client.
        places_without_grant: of requests whose callers are not authorized yet.
        credential_changes: few at once, because reconciles and the Lease use the same connections.
        polls: of the requests for messages, which wait.
        ending: set when the process stops; requests that wait for messages then get an empty answer.
    """

    services: IntakeServices
    auth: ReviewAuth
    bodies: Bodies
    parsing: Places = field(default_factory=parsing_places)
    places: Places = field(default_factory=lambda: Places(bounds.OTHER_REQUESTS))
    reads: Places = field(default_factory=lambda: Places(bounds.LOG_READS))
    signings: Places = field(default_factory=lambda: Places(bounds.SIGNINGS))
    places_without_grant: Places = field(default_factory=lambda: Places(bounds.REQUESTS_WITHOUT_GRANT))
    credential_changes: Places = field(default_factory=lambda: Places(bounds.CREDENTIAL_CHANGES))
    polls: Places = field(default_factory=lambda: Places(bounds.POLLS))
    ending: asyncio.Event = field(default_factory=asyncio.Event)

    async def permit(self, request: Request, right: Right, name: str = "") -> Producer:
        """Return the caller if it has a right on an endpoint of the path's namespace; without a name, on all of them.

        Raises:
            ProblemError: 401, 403 or 503.
            KubeError: the API server cannot review the token or the permission.
        """
        access = access_to(request.path_params["namespace"], right, name)
        return await self.auth.permit(request.headers, access, client_of(request.scope))

    async def endpoint(self, request: Request, right: Right) -> tuple[Endpoint, Producer]:
        """Return the endpoint of the path, and the caller, if it has the right.

        Raises:
            ProblemError: 401, 403 or 503; 404, there is no such endpoint.
            KubeError: the API server cannot review the token or the permission.
        """
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        caller = await self.permit(request, right, name)
        endpoint = self.services.registry.find(namespace, name)
        if endpoint is None:
            raise not_found(f'WebhookEndpoint "{name}" in namespace "{namespace}"')
        return endpoint, caller

    async def body(self, request: Request, limit: int) -> bytes:
        """Return the body of a request to the namespace of its path, of a bounded size."""
        holder = f'namespace "{request.path_params["namespace"]}"'
        return await self.bodies.read(request.receive, headers_of(request.scope), holder, limit=limit)

    async def document(self, request: Request, model: type[D], limit: int) -> D:
        """Return the document in the body of a request, of a bounded size."""
        return body_of(model, await self.body(request, limit))

    def audit(
        self,
        request: Request,
        action: str,
        caller: Producer,
        endpoint: Endpoint,
        *,
        target: str = "",
        deliveries: Sequence[str] | None = None,
    ) -> None:
        """Log what a caller did with an endpoint, with an object of it that ``target`` names, or with its messages."""
        self.services.audit.record(
            action,
            actor=caller.username,
            client=client_of(request.scope),
            organization=endpoint.namespace,
            project=endpoint.project,
            target=target or endpoint.name,
            deliveries=deliveries,
        )


def access_to(namespace: str, right: Right, name: str = "") -> Access:
    """Return a right on an endpoint of a namespace, or without a name on all of them, in the terms of RBAC."""
    verb, subresource = right
    return Access(verb, "webhookendpoints", subresource, namespace, name)


def hindrance(endpoint: Endpoint) -> str:
    """Return why nothing may be sent to an endpoint."""
    if endpoint.expired:
        return f'webhook "{endpoint.name}" has expired; set a later time, or delete it'
    if endpoint.suspend:
        return f'webhook "{endpoint.name}" is suspended; resume it'
    if endpoint.suspended_after_failures:
        return f'webhook "{endpoint.name}" is suspended after failures; a successful test resumes it'
    reason = f" ({endpoint.block_reason})" if endpoint.block_reason else ""
    return f'webhook "{endpoint.name}" is not ready{reason}; its conditions have the cause'


def check_not_expired(endpoint: Endpoint) -> None:
    """Return if an endpoint may get deliveries, at once or later.

    Raises:
        ProblemError: 409, it has expired.
    """
    if endpoint.expired:
        raise ProblemError(409, hindrance(endpoint))
