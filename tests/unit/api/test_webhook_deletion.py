"""The deletion of an endpoint by `/v1` while other clients write it."""

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from hookwright_api.rate_limits import Limiter
from hookwright_api.routes.webhooks import delete
from hookwright_api.services import Services
from hookwright_api.settings import ApiSettings
from hookwright_api.view.table_records import Identity
from hookwright_api.view.view import View
from hookwright_runtime.errors import KubeError
from hookwright_runtime.kubernetes import KubernetesClient, Object
from hookwright_runtime.problems import ProblemError


class ApiServer(KubernetesClient):
    """An API server with one endpoint that these field managers write in turn, each after a read."""

    def __init__(self, *managers: str) -> None:
        self._writers = list(managers)
        self._version, self._managers = 1, ["hookwright-api"]
        self.refused, self.is_deleted = 0, False

    async def _request(self, method: str, path: str, *, body: Object | None = None, **_: Any) -> Object:
        assert path.endswith("/namespaces/acme/webhookendpoints/orders")
        if method == "GET":
            view = self._object()
            if self._writers:
                self._managers.append(self._writers.pop(0))
                self._version += 1
            return view
        if (body or {})["preconditions"] != {"uid": "u", "resourceVersion": str(self._version)}:
            self.refused += 1
            raise KubeError("conflict", status=409)
        self.is_deleted = True
        return {}

    def _object(self) -> Object:
        fields = [{"manager": name, "fieldsV1": {"f:spec": {}}} for name in self._managers]
        return {
            "metadata": {
                "uid": "u",
                "resourceVersion": str(self._version),
                "managedFields": fields,
                "labels": {"app.kubernetes.io/managed-by": "hookwright-api"},
            }
        }


def services_with(server: ApiServer) -> Services:
    """Return services that write to an API server."""
    settings, placeholder = ApiSettings(), cast("Any", None)
    return Services(settings, View(), server, placeholder, Limiter(settings), placeholder)


ORDERS = Identity("acme", "orders", "u", 1, datetime(2026, 1, 31, 12, tzinfo=UTC), deleting=False, declared_by="")


async def test_a_deletion_is_repeated_after_another_write() -> None:
    """The operator writes the status at any time."""
    server = ApiServer("hookwright-api")
    await delete(services_with(server), ORDERS)
    assert (server.refused, server.is_deleted) == (1, True)


async def test_an_endpoint_that_is_declared_during_its_deletion_stays() -> None:
    """Its new owner, such as GitOps, decides about it."""
    server = ApiServer("argocd")
    with pytest.raises(ProblemError, match='"argocd" owns its spec') as error:
        await delete(services_with(server), ORDERS)
    assert (error.value.status, server.refused, server.is_deleted) == (409, 1, False)


async def test_an_endpoint_that_always_changes_is_not_deleted() -> None:
    """The client repeats the request."""
    server = ApiServer(*["hookwright-api"] * 9)
    with pytest.raises(ProblemError, match="changes too often") as error:
        await delete(services_with(server), ORDERS)
    assert (error.value.status, server.is_deleted) == (409, False)
