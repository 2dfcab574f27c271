"""POST /projects/{project}/events: the route of events, optimized for throughput."""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from starlette.types import Receive, Scope, Send

from hookwright_crds.documents.event_bodies import EVENTS_BODY_LIMIT
from hookwright_crds.requests import REQUEST_ID
from hookwright_operator.intake.auth import Access
from hookwright_operator.intake.content_mode import mode_of
from hookwright_operator.intake.context import IntakeContext, client_of, headers_of
from hookwright_operator.intake.parsing import parse, parse_in_pieces
from hookwright_operator.services.events import AcceptResult, IdConflictError
from hookwright_operator.tracing import Traces, record_acceptance, traceparent_of
from hookwright_runtime.places import Places
from hookwright_runtime.problems import MAX_FAULTS, Code, FieldFault, ProblemError, not_found
from hookwright_runtime.request_body import parsing_weight

EVENTS: Final = "/v1alpha1/namespaces/{namespace}/projects/{project}/events"
"""Path for events."""
_UNQUEUED_BYTES: Final = 2048
"""Bytes of a body that is parsed at once: it takes less time than many places take."""


class EventRoute:
    """The route that accepts events; plain ASGI, because a request object would cost as much as all the rest."""

    def __init__(self, context: IntakeContext, *, traces: Traces | None, places: Places) -> None:
        self._services, self._auth = context.services, context.auth
        self._bodies, self._parsing = context.bodies, context.parsing
        self._traces = traces
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 202 ``{accepted, duplicates, deliveries, event_ids}`` after the commit, or raise a `ProblemError`."""
        namespace: str = scope["path_params"]["namespace"]
        project: str = scope["path_params"]["project"]
        headers = headers_of(scope)
        traces = self._traces
        began_ns = time.time_ns()
        access = Access("create", "projects", "events", namespace, project)
        await self._auth.permit(headers, access, client_of(scope))
        if traces is None:
            result = await self._accept(namespace, project, headers, receive)
        else:
            with traces.accepting(
                headers, began_ns=began_ns, namespace=namespace, project=project, request_id=scope[REQUEST_ID]
            ) as span:
                result = await self._accept(namespace, project, headers, receive, traceparent_of(span))
                record_acceptance(
                    span, events=result.accepted, duplicates=result.duplicates, deliveries=result.deliveries
                )
        answer = '{"accepted":%d,"duplicates":%d,"deliveries":%d,"event_ids":["%s"]}' % (  # noqa: UP031 - the fastest
            result.accepted,
            result.duplicates,
            result.deliveries,
            '","'.join(result.event_ids),
        )
        await _send_json(send, 202, answer.encode())

    async def _accept(
        self, namespace: str, project: str, headers: Mapping[str, str], receive: Receive, trace: str | None = None
    ) -> AcceptResult:
        if self._services.registry.project(namespace, project) is None:
            raise not_found(f'Project "{project}" in namespace "{namespace}"')
        mode = mode_of(headers)
        holder = f'namespace "{namespace}"'
        body = await self._bodies.read(receive, headers, holder, limit=EVENTS_BODY_LIMIT)
        own_types = self._services.registry.event_types(namespace)
        with await self._places.acquire(namespace):
            if len(body) <= _UNQUEUED_BYTES:
                events = parse(mode, body, headers, own_types)
            else:
                pieces = parse_in_pieces(mode, body, headers, own_types)
                events = await self._parsing.run(holder, pieces, parsing_weight(body))
            try:
                return await self._services.events.accept(namespace, project, events, trace=trace)
            except IdConflictError as error:
                raise _conflict(error.indexes, is_numbered=body.lstrip()[:1] == b"[") from None


def _conflict(indexes: Sequence[int], *, is_numbered: bool) -> ProblemError:
    message = "was accepted within 24 hours with other content; send this event with a new id"
    fields = [f"[{index}].id" if is_numbered else "id" for index in indexes[:MAX_FAULTS]]
    return ProblemError(
        409,
        f"{fields[0]} {message}; nothing was accepted",
        code=Code.EVENT_ID_REUSED,
        errors=tuple(FieldFault(field, message) for field in fields),
    )


async def _send_json(send: Send, status: int, body: bytes) -> None:
    """Send one whole answer, which is already JSON."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
