"""A busy session of a real operator and a real API: its operations, and the reading of its metrics."""

import base64
from dataclasses import dataclass, field
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from support.api_processes import PASSWORD, Organization
from support.api_receiver import Received
from support.polling import eventually

from hookwright_crds.sessions import ENDED_SESSIONS_NAME
from hookwright_dev.cluster.installation import (
    AUDIENCE,
    SYSTEM_NAMESPACE,
    USERS_NAMESPACE,
    ApiProcess,
    OperatorProcess,
    service_account_token,
)
from hookwright_dev.cluster.kubectl import Cluster

STATIC_HEADER = "static-header-value-7f3a9c"
WRONG_PASSWORD = "wrong horse battery staple"
WRONG_KEY = "hw_aaaaaaaaaaaa_" + "b" * 49

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(url: str) -> Samples:
    """Return every sample of a process by name and labels."""
    text = httpx.get(f"{url}/metrics", timeout=30.0, trust_env=False).text
    return {
        (sample.name, frozenset(sample.labels.items())): float(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    """Return the sum of the samples of a name that have these labels."""
    expected = set(labels.items())
    return sum(number for (sample, has), number in samples.items() if sample == name and expected <= has)


@dataclass(slots=True)
class Session:
    """Processes of the session, and the values that they must not disclose.

    Attributes:
        before: the operator's metrics before any operation.
        secrets: values that must appear nowhere, by their description.
    """

    cluster: Cluster
    operator: OperatorProcess
    api: ApiProcess
    organization: Organization
    receiver: Received
    before: Samples
    secrets: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def namespace(self) -> str:
        """Return the organization's namespace."""
        return self.organization.name

    def metric(self, name: str, **labels: str) -> float:
        """Return the current value of an operator's metric."""
        return self.operator.metric(name, **labels)

    def endpoint(self, name: str, events: list[str], **spec: Any) -> None:
        """Declare an endpoint and wait until the operator has set its conditions."""
        spec = {"projectRef": {"name": "billing"}, "url": f"{self.receiver.url}/{name}", "events": events} | spec
        self.organization.apply({"kind": "WebhookEndpoint", "metadata": {"name": name}, "spec": spec})
        eventually(
            lambda: (self.cluster.objects.get("hwep", name, self.namespace) or {}).get("status", {}).get("conditions"),
            f"{name} has conditions",
        )

    def send(self, kind: str, event_id: str | None = None) -> httpx.Response:
        """Send an event to the intake."""
        event = {"type": kind, "messageId": "m-1"} | ({"id": event_id} if event_id else {})
        url = f"{self.operator.intake_url}/v1alpha1/namespaces/{self.namespace}/projects/billing/events"
        headers = {"Authorization": f"Bearer {self.secrets['producer token']}"}
        return httpx.post(url, json=event, headers=headers, timeout=30.0, trust_env=False)


def keep_busy(session: Session, client: httpx.Client) -> None:
    """Cause everything that can happen: deliveries, retries, failures, discards, refusals, a rotation."""
    session.organization.project()
    session.secrets |= {
        "password": PASSWORD,
        "wrong password": WRONG_PASSWORD,
        "wrong key": WRONG_KEY,
        "static header": STATIC_HEADER,
        "producer token": service_account_token(
            session.cluster, "hookwright-producer", namespace=SYSTEM_NAMESPACE, audience=AUDIENCE
        ),
        "session token": session.organization.session()["Authorization"].removeprefix("Bearer "),
        "API's token": (session.api.folder / "operator-token").read_text(),
    }
    _declare(session)
    _deliver(session)
    _use_the_api(session, client)
    _collect_secrets(session)


def _declare(session: Session) -> None:
    handover = {"secretName": "sender-key", "ttl": "1h"}
    spec = {"projectRef": {"name": "billing"}, "displayName": "Sender", "handover": handover}
    session.organization.apply({"kind": "ApiKey", "metadata": {"name": "sender"}, "spec": spec})
    session.endpoint("good", ["delivered"], headers={"X-Static": STATIC_HEADER})
    session.endpoint("dead", ["bounced"], url="http://127.0.0.1:1/nobody-listens")
    session.endpoint("held", ["opened"], suspend=True)
    session.endpoint("orphan", ["clicked"], projectRef={"name": "nowhere"})
    _collect_secrets(session)
    session.cluster.objects.patch("hwep", "good", session.namespace, {"spec": {"signing": {"rotation": 1}}})


def _deliver(session: Session) -> None:
    for number in range(5):
        assert session.send("delivered", f"evt-{number}").status_code == 202
    assert session.send("delivered", "evt-0").json()["duplicates"] == 1
    assert session.send("bounced").status_code == 202
    assert session.send("opened").status_code == 202
    assert session.send("nonsense").status_code == 422
    eventually(lambda: session.metric("hookwright_deliveries_total", outcome="delivered") >= 5, "five delivered")
    eventually(lambda: session.metric("hookwright_deliveries_total", outcome="failed") >= 1, "one given up")
    eventually(lambda: session.metric("hookwright_endpoints", state="failing") == 1, "one is failing")
    eventually(lambda: session.metric("hookwright_deliveries_pending") == 1, "one is held")
    session.cluster.objects.delete("hwep", "held", namespace=session.namespace)
    eventually(lambda: session.metric("hookwright_deliveries_total", outcome="discarded") == 1, "one discarded")


def _use_the_api(session: Session, client: httpx.Client) -> None:
    new_key = session.organization.key()
    session.secrets["API key"] = new_key["key"]
    key = {"X-Service-Key": new_key["key"]}
    hook = session.organization.webhook(key, url=f"{session.receiver.url}/made-by-api")
    session.secrets["webhook's secret"] = hook["secret"]
    assert client.post("/v1/events", json={"type": "delivered", "messageId": "m-2"}, headers=key).status_code == 202
    assert client.post(f"/v1/webhooks/{hook['id']}/test", headers=key).status_code == 200
    assert client.get("/v1/webhooks", headers={"X-Service-Key": WRONG_KEY}).status_code == 401
    wrong = {"email": session.organization.email, "password": WRONG_PASSWORD}
    assert client.post("/v1/auth/login", json=wrong).status_code == 401
    assert client.post("/v1/webhooks", json={"url": "nonsense"}, headers=key).status_code == 422
    assert client.delete(f"/v1/webhooks/{hook['id']}", headers=key).status_code == 204


def _collect_secrets(session: Session) -> None:
    """Add the contents of Secrets: signing secrets, the API key, session keys, the user's password hash."""
    for namespace in (session.namespace, USERS_NAMESPACE):
        for secret in session.cluster.objects.list("secret", namespace):
            if secret["metadata"]["name"] == ENDED_SESSIONS_NAME:
                continue  # it has times, which are no secrets
            for name, row in (secret.get("data") or {}).items():
                text = base64.b64decode(row).decode()
                if name not in {"email", "organization", "role", "ca.crt", "namespace"}:
                    session.secrets[f"{secret['metadata']['name']} {name} {text[-4:]}"] = text
