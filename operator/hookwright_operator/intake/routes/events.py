"""POST /projects/{project}/events: the route of events, optimized for throughput."""

from collections.abc import Mapping

from starlette.types import Receive, Scope, Send

from hookwright_crds.requests import REQUEST_ID
from hookwright_operator.intake.asgi import client_of, headers_of, send_json
from hookwright_operator.intake.auth import Access, permit
from hookwright_operator.intake.deps import AcceptResult, Deps
from hookwright_operator.intake.parsing import MAX_BODY_BYTES, mode_of, parse
from hookwright_operator.intake.places import EVENT_REQUESTS, Places
from hookwright_operator.tracing import began
from hookwright_runtime.problems import not_found
from hookwright_runtime.request_body import Bodies


class EventRoutes:
    """The route that accepts events; plain ASGI, because a request object would cost as much as all the rest."""

    def __init__(self, deps: Deps, bodies: Bodies, max_requests: int = EVENT_REQUESTS) -> None:
        self._deps = deps
        self._bodies = bodies
        self._places = Places("requests with events", total=max_requests, each=max(1, max_requests // 2))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 202 ``{accepted, duplicates, deliveries}`` after the commit, else raise a `ProblemError`."""
        namespace: str = scope["path_params"]["namespace"]
        project: str = scope["path_params"]["project"]
        headers = headers_of(scope)
        traces = self._deps.traces
        began_ns = began() if traces is not None else 0
        access = Access("create", "projects", "events", namespace, project)
        await permit(self._deps.auth, headers, access, client_of(scope))
        if traces is None:
            result = await self._accept(namespace, project, headers, receive)
        else:
            with traces.accepting(
                headers, began_ns=began_ns, namespace=namespace, project=project, request_id=scope[REQUEST_ID]
            ) as span:
                result = await self._accept(namespace, project, headers, receive, span.traceparent)
                span.accepted(events=result.accepted, duplicates=result.duplicates, deliveries=result.deliveries)
        answer = b'{"accepted":%d,"duplicates":%d,"deliveries":%d}' % (
            result.accepted,
            result.duplicates,
            result.deliveries,
        )
        await send_json(send, 202, answer)

    async def _accept(
        self, namespace: str, project: str, headers: Mapping[str, str], receive: Receive, trace: str | None = None
    ) -> AcceptResult:
        if not self._deps.registry.has_project(namespace, project):
            raise not_found(f'Project "{project}" in namespace "{namespace}"')
        mode = mode_of(headers)
        body = await self._bodies.read(receive, headers, f'namespace "{namespace}"', limit=MAX_BODY_BYTES)
        self._places.take(namespace)
        try:
            return await self._deps.accepter.accept(namespace, project, parse(mode, body, headers), trace=trace)
        finally:
            self._places.release(namespace)
