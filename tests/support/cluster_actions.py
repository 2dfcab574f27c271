"""Helpers of the cluster tests: an organization's objects, the intake, a receiver, and polling."""

import asyncio
import base64
import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx
from support.polling import PATIENCE, eventually

from hookwright_crds.base import MADE_BY_API
from hookwright_dev.cluster.installation import AUDIENCE, SYSTEM_NAMESPACE, OperatorProcess, service_account_token
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.receiver import Answer, Received, Receiver

T = TypeVar("T")

Object = dict[str, Any]


@contextmanager
def receiving(answer: Answer = lambda _: 200) -> Iterator[Receiver]:
    """Run a receiver in a separate thread, so that it answers while the test waits."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="receiver", daemon=True)
    thread.start()
    receiver = Receiver()
    receiver.answer = answer
    asyncio.run_coroutine_threadsafe(receiver.start(), loop).result(10)
    try:
        yield receiver
    finally:
        asyncio.run_coroutine_threadsafe(receiver.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def message_ids(received: Sequence[Received]) -> list[str]:
    """Return the ``messageId`` of each request."""
    return [str(json.loads(request.body)["messageId"]) for request in received]


def manifest(kind: str, name: str, spec: Mapping[str, Any] | None = None) -> Object:
    """Return an object of Hookwright as users write it."""
    return {"apiVersion": "hookwright.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": dict(spec or {})}


def endpoint(name: str, url: str, *, project: str = "billing", events: Sequence[str] = ("delivered",), **spec: Any) -> (
    Object
):  # fmt: skip
    """Return a WebhookEndpoint as users write it."""
    return manifest(
        "WebhookEndpoint", name, {"projectRef": {"name": project}, "url": url, "events": list(events), **spec}
    )


def apikey(name: str, *, project: str = "billing", ttl: str = "1h", **spec: Any) -> Object:
    """Return an ApiKey whose key the operator hands over in the Secret ``<name>-key``."""
    handover = {"secretName": f"{name}-key", "ttl": ttl}
    return manifest("ApiKey", name, {"projectRef": {"name": project}, "handover": handover, **spec})


def made_by_api(declared: Object) -> Object:
    """Return an object with the label that ``/v1`` sets on its objects."""
    return {**declared, "metadata": {**declared["metadata"], "labels": dict(MADE_BY_API)}}


@dataclass
class Organization:
    """A namespace, the operator that serves it, and a producer's token."""

    cluster: Cluster
    operator: OperatorProcess
    namespace: str
    token: str = field(init=False, repr=False)
    client: httpx.Client = field(init=False, repr=False)

    def __enter__(self) -> Self:
        """Get a token with the permission to send for every project, and a client, which closes with the context."""
        self.token = service_account_token(
            self.cluster, "hookwright-producer", namespace=SYSTEM_NAMESPACE, audience=AUDIENCE
        )
        self.client = httpx.Client(timeout=30, trust_env=False)
        return self

    def __exit__(self, *_: object) -> None:
        """Close the client."""
        self.client.close()

    # ---- objects

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl in the namespace and return its output."""
        return self.cluster.kubectl(*arguments, "-n", self.namespace, stdin=stdin, check=check).stdout

    def apply(self, *objects: Object) -> None:
        """Apply objects as users do."""
        self.cluster.objects.apply(*objects, namespace=self.namespace)

    def patch(self, kind: str, name: str, patch: object, *, subresource: str = "") -> None:
        """Patch an object: a list is a JSON patch, a mapping a merge patch."""
        self.cluster.objects.patch(kind, name, self.namespace, patch, subresource=subresource)

    def delete(self, kind: str, *names: str, wait: bool = True, seconds: float = 60.0) -> None:
        """Delete objects, and wait at most so many seconds until they are gone."""
        self.cluster.objects.delete(kind, *names, namespace=self.namespace, wait=wait, seconds=seconds)

    def uid(self, kind: str, name: str) -> str:
        """Return the uid of an object."""
        return str((self.get(kind, name) or {})["metadata"]["uid"])

    def get(self, kind: str, name: str) -> Object | None:
        """Return an object, None if it does not exist."""
        return self.cluster.objects.get(kind, name, self.namespace)

    def objects(self, kinds: str) -> list[Object]:
        """Return all objects of some kinds."""
        names = kinds.replace("hookwright", "hwproj,hwkey,hwep,hwtype").split(",")
        return [item for kind in names for item in self.cluster.objects.list(kind, self.namespace)]

    def status(self, kind: str, name: str) -> Object:
        """Return an object's status, empty if there is none."""
        return dict((self.get(kind, name) or {}).get("status") or {})

    def secret(self, name: str) -> dict[str, str] | None:
        """Return a Secret's decoded fields, None if there is no such Secret."""
        answer = self.get("secret", name)
        if answer is None:
            return None
        return {key: base64.b64decode(value).decode() for key, value in (answer.get("data") or {}).items()}

    def events(self, reason: str) -> list[Object]:
        """Return the Kubernetes Events with a reason."""
        return [event for event in self.objects("events") if event["reason"] == reason]

    def condition(self, kind: str, name: str, type_: str = "Ready") -> str:
        """Return a condition as ``<status> <reason>``, empty if there is none."""
        return condition(self.get(kind, name) or {}, type_)

    def wait_for(self, kind: str, name: str, wanted: str, *, type_: str = "Ready", within: float = PATIENCE) -> None:
        """Return when a condition is ``<status> <reason>``."""
        eventually(
            lambda: self.condition(kind, name, type_) == wanted, f"{kind} {name} has {type_}={wanted}", within=within
        )

    def with_endpoint(self, declared: Object) -> None:
        """Apply the project and an endpoint, and return when it is ready."""
        self.apply(manifest("Project", "billing"), declared)
        self.wait_for("hwep", declared["metadata"]["name"], "True Delivering")

    # ---- the intake, and the operator's metrics

    def post(
        self, content: bytes | str, *, project: str = "billing", token: str | None = None, namespace: str = ""
    ) -> httpx.Response:
        """Post bytes to the intake as JSON."""
        url = f"{self.operator.intake_url}/v1alpha1/namespaces/{namespace or self.namespace}/projects/{project}/events"
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        return self.client.post(url, content=content, headers={**headers, "Content-Type": "application/json"})

    def send(self, *events: Object) -> Object:
        """Send events in one request, assert that it is accepted, and return the answer."""
        answer = self.post(json.dumps(events[0] if len(events) == 1 else events))
        assert answer.status_code == 202, answer.text
        return dict(answer.json())

    def metric(self, name: str, **labels: str) -> float:
        """Return the value of one of the operator's metrics, 0 if it has none yet."""
        return self.operator.metric(name, **labels)


def condition(observed: Mapping[str, Any], type_: str = "Ready") -> str:
    """Return an object's condition as ``<status> <reason>``, empty if there is none."""
    for known in (observed.get("status") or {}).get("conditions") or ():
        if known["type"] == type_:
            return f"{known['status']} {known['reason']}"
    return ""


def delivered(number: int | str, **more: Any) -> Object:
    """Return an event of type ``delivered``, numbered by its ``messageId``."""
    return {"type": "delivered", "messageId": str(number), **more}


# ------------------------------------------------------------------------------------------ the store


def database(operator: OperatorProcess) -> Path:
    """Return the operator's database file."""
    url = operator.settings.get("HOOKWRIGHT_DATABASE_URL", f"sqlite:///{operator.folder / 'hookwright.db'}")
    return Path(url.removeprefix("sqlite:///").partition("?")[0])


@contextmanager
def locked(operator: OperatorProcess) -> Iterator[None]:
    """Hold the lock that every writer of the operator's database needs."""
    with closing(sqlite3.connect(database(operator), isolation_level=None, timeout=30)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")
