"""Actors of the suite: an organization with a producer, an API client and a receiver, each in its own pod."""

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

import yaml
from e2e.installing import NAMESPACE, RESTRICTED, Installation
from support.polling import eventually

from hookwright_dev.cluster.stack import ROOT

Object = dict[str, Any]

PODS: Final = ROOT / "tests" / "e2e" / "pods"
PROGRAMS: Final = {
    "client.py": PODS / "client.py",
    "load.py": PODS / "load.py",
    "receiver.py": PODS / "receiver.py",
    "hookwright_dev/receiver.py": ROOT / "dev" / "hookwright_dev" / "receiver.py",
}
"""Programs of the pods, by their paths in them."""
SCRIPTS: Final = "/scripts"
INTAKE: Final = f"http://hookwright-operator.{NAMESPACE}:8080"
API: Final = f"http://hookwright-api.{NAMESPACE}"
RATE: Final = 200.0
PATIENCE: Final = 90.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A Service's answer; its status is 0 if there was none."""

    status: int
    headers: Mapping[str, str]
    body: str

    @property
    def json(self) -> Any:
        """Return the parsed body."""
        return json.loads(self.body)


@dataclass
class Organization:
    """A namespace with a producer that may send for its projects, and a receiver."""

    installation: Installation
    namespace: str = field(default_factory=lambda: f"e2e-{uuid4().hex[:8]}")

    def create(self) -> Self:
        """Create the namespace with its pods, and return when these are Ready."""
        self.installation.organizations.append(self.namespace)
        kubectl = self.installation.kubectl
        kubectl("create", "namespace", self.namespace)
        kubectl("label", "namespace", self.namespace, *RESTRICTED)
        self.grant("hookwright-producer", self)
        self.apply(*_workloads(self.installation.image))
        self.kubectl("wait", "--for=condition=Ready", "pod/client", "pod/receiver", "--timeout=60s", timeout=70)
        return self

    # ---- objects

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 60.0) -> str:
        """Run kubectl in the namespace and return its output."""
        return self.installation.kubectl("-n", self.namespace, *arguments, stdin=stdin, timeout=timeout)

    def apply(self, *objects: Object) -> None:
        """Apply objects with kubectl."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def get(self, kind: str, name: str) -> Object:
        """Return an object."""
        return dict(json.loads(self.kubectl("get", kind, name, "-o", "json")))

    def secret(self, name: str, field_: str = "secret") -> str:
        """Return a field of a Secret."""
        return b64decode(self.get("secret", name)["data"][field_]).decode()

    def with_endpoint(self, name: str = "orders", *, project: str = "billing", **spec: Any) -> None:
        """Declare a project with an endpoint at the receiver, and give the receiver the signing secret."""
        target = {"projectRef": {"name": project}, "url": self.receiver(name)}
        self.apply(
            _ours("Project", project, {}),
            _ours("WebhookEndpoint", name, {"events": ["delivered"], **target, **spec}),
        )
        self.kubectl("wait", "--for=condition=Ready", f"hwep/{name}", "--timeout=30s")
        self.receive(name, self.secret(f"{name}-signing"))

    def grant(self, role: str, other: "Organization") -> None:
        """Grant an organization's ServiceAccount the rights of a ClusterRole in this namespace."""
        account = f"--serviceaccount={other.namespace}:default"
        self.kubectl("create", "rolebinding", f"{role}-{other.namespace}", f"--clusterrole={role}", account)

    # ---- pods

    def request(
        self,
        method: str,
        url: str,
        body: object = None,
        *,
        token: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request from the client's pod, with a JSON body; ``token`` adds its ServiceAccount's token."""
        arguments = {"method": method, "url": url, "token": token, "headers": headers or {}}
        if body is not None:
            arguments |= {"body": json.dumps(body), "headers": {"Content-Type": "application/json", **(headers or {})}}
        output = self.kubectl(
            "exec", "-i", "client", "--", "python", f"{SCRIPTS}/client.py", stdin=json.dumps([arguments])
        )
        (answer,) = json.loads(output)
        return Answer(**answer)

    def post(self, *events: Object, project: str = "billing", namespace: str = "") -> Answer:
        """Send events to the intake, as a producer in the cluster does."""
        path = f"/v1alpha1/namespaces/{namespace or self.namespace}/projects/{project}/events"
        return self.request("POST", f"{INTAKE}{path}", list(events), token=True)

    def receiver(self, name: str) -> str:
        """Return the URL of one of the receiver's paths, as pods see it."""
        return f"http://receiver.{self.namespace}:8080/{name}"

    def receive(self, name: str, *secrets: str, status: int = 200) -> None:
        """Set the secrets of one of the receiver's paths, and the status that it answers."""
        answer = self.request("PUT", self.receiver(name), {"secrets": secrets, "status": status})
        assert answer.status == 204, answer

    def received(self, name: str) -> Object:
        """Return the deliveries to one of the receiver's paths: ``good``, ``wrong``, and ``times`` by messageId."""
        answer = self.request("GET", self.receiver(name))
        assert answer.status == 200, answer
        return dict(answer.json)

    def arrived(self, name: str, messages: Sequence[str], within: float = 30.0) -> Object:
        """Return the deliveries as soon as all messages have arrived, each with a valid signature."""
        report: Object = {}

        def complete() -> bool:
            report.update(self.received(name))
            return not set(messages) - set(report["times"])

        try:
            eventually(complete, f"{len(messages)} messages at {name}", within)
        except AssertionError as missing:
            lacking = sorted(set(messages) - set(report["times"]))
            raise AssertionError(f"{missing}; {len(lacking)} are missing, such as {lacking[:5]}") from None
        assert report["wrong"] == {}
        return report

    def load(self, *, seconds: float, endpoint: str = "orders", project: str = "billing") -> "Load":
        """Return a producer of 200 events a second, to be started with ``with``."""
        return Load(self, endpoint, project, seconds)


@dataclass
class Load:
    """A running producer in the client's pod. Leaving the block waits for its end and checks that nothing was lost.

    Attributes:
        duplicates: how often a message arrived more than once, known after the block.
        tally: the producer's own counts, known after the block.
    """

    organization: Organization
    endpoint: str
    project: str
    seconds: float
    prefix: str = field(default_factory=lambda: f"load-{uuid4().hex[:8]}")
    duplicates: int = 0
    tally: Object = field(default_factory=dict)
    _result: Future[str] = field(default_factory=Future)

    def __enter__(self) -> Self:
        """Start, and return when the first hundred messages have arrived."""
        threads = ThreadPoolExecutor(1, "load")
        self._result = threads.submit(self._run)
        threads.shutdown(wait=False)
        eventually(lambda: self._result.done() or self.count() >= 100, "100 messages at the receiver")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Wait for the end, then for every accepted message."""
        if error is not None:
            return
        self.tally = json.loads(self._result.result(self.seconds + PATIENCE + 30))
        total = len(self.messages)
        assert (self.tally["accepted"], self.tally["lost"]) == (total, {}), self.tally
        report = self.organization.arrived(self.endpoint, self.messages, within=60)
        self.duplicates = sum(report["times"][message] - 1 for message in self.messages)

    @property
    def messages(self) -> list[str]:
        """Return the messageId of every event."""
        return [f"{self.prefix}-{number}" for number in range(int(RATE * self.seconds))]

    def count(self) -> int:
        """Return how many of the messages have arrived."""
        return sum(message.startswith(self.prefix) for message in self.organization.received(self.endpoint)["times"])

    def _run(self) -> str:
        url = f"{INTAKE}/v1alpha1/namespaces/{self.organization.namespace}/projects/{self.project}/events"
        options = {"prefix": self.prefix, "rate": RATE, "seconds": self.seconds, "patience": PATIENCE}
        argv = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        return self.organization.kubectl(
            "exec", "client", "--", "python", f"{SCRIPTS}/load.py", url, *argv, timeout=self.seconds + PATIENCE + 20
        )


def _ours(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": "hookwright.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _workloads(image: str) -> list[Object]:
    """Return the pods of an organization, and the objects that they need."""
    keys = {place.replace("/", "."): place for place in PROGRAMS}
    items = [{"key": key, "path": place} for key, place in keys.items()]
    programs = {"name": "programs", "configMap": {"name": "programs", "items": items}}
    token = {
        "name": "hookwright",
        "projected": {"sources": [{"serviceAccountToken": {"path": "token", "audience": "hookwright"}}]},
    }
    port = {"name": "http", "containerPort": 8080}
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "programs"},
            "data": {key: PROGRAMS[place].read_text() for key, place in keys.items()},
        },
        _pod("client", image, ["-c", "import signal; signal.sigwait({signal.SIGTERM})"], volumes=[programs, token]),
        _pod("receiver", image, [f"{SCRIPTS}/receiver.py"], volumes=[programs], ports=[port]),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "receiver"},
            "spec": {"selector": {"app": "receiver"}, "ports": [{"port": 8080, "targetPort": "http"}]},
        },
    ]


def _pod(name: str, image: str, argv: list[str], *, volumes: list[Object], ports: Sequence[Object] = ()) -> Object:
    """Return a pod of the restricted level that runs Python with the image's libraries."""
    mounts = {"programs": SCRIPTS, "hookwright": "/var/run/secrets/hookwright.dev"}
    container: Object = {
        "name": name,
        "image": image,
        "command": ["python", *argv],
        "env": [{"name": "PYTHONPATH", "value": SCRIPTS}],
        "ports": list(ports),
        "volumeMounts": [{"name": volume["name"], "mountPath": mounts[volume["name"]]} for volume in volumes],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    if ports:
        container["readinessProbe"] = {"tcpSocket": {"port": "http"}, "periodSeconds": 1}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "containers": [container],
            "volumes": volumes,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        },
    }
