"""Changes of webhooks: PATCH on the real API server, with the owners of objects and the versions of states."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from support.api_processes import Organization, problem_of
from support.api_receiver import Received
from support.polling import eventually

from hookwright_crds.base import format_timestamp
from hookwright_dev.cluster.kubectl import Cluster

MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
EVERYTHING: dict[str, Any] = {
    "url": "https://example.com/other",
    "events": ["wa_*", "bounced"],
    "enabled": False,
    "description": "Orders of the shop",
    "headers": {"X-Team": "billing", "Authorization": "Bearer of-the-receiver"},
    "timeout": "5s",
    "max_in_flight": 2,
    "rate_limit": {"per_minute": 120},
    "format": "cloudevents",
    "labels": {"team": "billing", "stage": ""},
    "expires_at": "2099-01-31T12:00:00Z",
}
SHOWN = {name: value for name, value in EVERYTHING.items() if name != "headers"} | {
    "header_names": ["Authorization", "X-Team"]
}


def patched(
    client: httpx.Client, key: dict[str, str], name: str, patch: object, status: int = 200, **headers: str
) -> dict[str, Any]:
    """Send a merge patch, assert the status, and return the answer."""
    content = patch if isinstance(patch, bytes) else json.dumps(patch).encode()
    answer = client.patch(f"/v1/webhooks/{name}", content=content, headers={**key, **MERGE_PATCH, **headers})
    if status >= 400:
        return problem_of(answer, status)
    assert answer.status_code == status, answer.text
    document: dict[str, Any] = answer.json()
    return document


def spec_of(cluster: Cluster, organization: Organization, name: str) -> dict[str, Any]:
    """Return the spec of an endpoint."""
    spec: dict[str, Any] = stored(cluster, organization, name)["spec"]
    return spec


def stored(cluster: Cluster, organization: Organization, name: str) -> dict[str, Any]:
    """Return an endpoint as the API server has it."""
    document = cluster.objects.get("WebhookEndpoint", name, organization.name)
    assert document is not None
    return document


def test_everything_can_be_set_at_creation_and_by_a_change(
    tenant: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """Both lead to the same object; no answer has the value of a header; nulls lead back to the defaults."""
    key = tenant.service_key()
    plain = tenant.webhook(key)
    full = client.post("/v1/webhooks", json=EVERYTHING, headers=key)
    assert full.status_code == 201, full.text
    answer = patched(client, key, plain["id"], EVERYTHING)
    for row in (full.json(), answer, client.get(f"/v1/webhooks/{plain['id']}", headers=key).json()):
        assert {name: row[name] for name in SHOWN} == SHOWN
        assert "of-the-receiver" not in json.dumps(row)
    assert "of-the-receiver" not in client.get("/v1/webhooks", headers=key).text
    specs = [spec_of(control_plane, tenant, name) for name in (full.json()["id"], plain["id"])]
    assert specs[0] == specs[1]
    assert specs[0]["headers"] == EVERYTHING["headers"]

    nulls = dict.fromkeys(EVERYTHING) | {"url": plain["url"], "events": plain["events"]}
    reset = patched(client, key, plain["id"], nulls)
    assert {name: reset[name] for name in SHOWN} == {name: plain[name] for name in SHOWN}
    assert spec_of(control_plane, tenant, plain["id"]) == spec_of(control_plane, tenant, tenant.webhook(key)["id"])


def test_a_change_takes_effect_on_the_next_delivery(
    acme: Organization, client: httpx.Client, receiver: Received
) -> None:
    """A paused webhook keeps its deliveries; after it is enabled, they have the new header."""
    key = acme.service_key()
    new_webhook = acme.webhook(key, f"{receiver.url}/a", enabled=False)["id"]
    assert client.get(f"/v1/webhooks/{new_webhook}", headers=key).json()["status"] == "suspended"
    assert client.post("/v1/events", json={"type": "delivered", "messageId": "m"}, headers=key).status_code == 202
    patched(client, key, new_webhook, {"enabled": True, "headers": {"X-Team": "orders"}})
    eventually(lambda: len(receiver.requests) == 1, "the delivery")
    assert receiver.requests[0][1]["x-team"] == "orders"


def test_wildcards_subscribe_to_each_type_of_a_channel(
    acme: Organization, client: httpx.Client, receiver: Received
) -> None:
    """wa_* gets WhatsApp's events only, and * gets all; the answers show the wildcards as they were sent."""
    key = acme.service_key()
    whatsapp = acme.webhook(key, f"{receiver.url}/whatsapp", events=["wa_*"])
    acme.webhook(key, f"{receiver.url}/all", events=["*"])
    assert whatsapp["events"] == ["wa_*"]
    for type_, deliveries in (("wa_read", 2), ("wa_replied", 2), ("sms_sent", 1), ("opened", 1)):
        answer = client.post("/v1/events", json={"type": type_, "messageId": "m"}, headers=key)
        assert answer.json()["deliveries"] == deliveries, type_
    patched(client, key, whatsapp["id"], {"events": ["sms_*", "opened"]})

    def deliveries_of(type_: str) -> int:
        answer = client.post("/v1/events", json={"type": type_, "messageId": "m"}, headers=key)
        return int(answer.json()["deliveries"])

    eventually(lambda: deliveries_of("wa_read") == 1, "the change is in effect")
    assert deliveries_of("sms_failed") == 2


def test_an_empty_object_changes_nothing(tenant: Organization, client: httpx.Client, control_plane: Cluster) -> None:
    """RFC 7396: it names no field. Only an endpoint without a limit has no number for one."""
    key = tenant.service_key()
    name = str(tenant.webhook(key, rate_limit={"per_minute": 60}, labels={"team": "a"})["id"])
    patched(client, key, name, {"headers": {"X-Team": "a"}})
    before, document = spec_of(control_plane, tenant, name), client.get(f"/v1/webhooks/{name}", headers=key).json()
    for field in ("rate_limit", "headers", "labels"):
        assert patched(client, key, name, {field: {}})["labels"] == document["labels"], field
    assert spec_of(control_plane, tenant, name) == before
    assert patched(client, key, name, {"rate_limit": {"per_minute": None}}, 422)["errors"]
    new_webhook = str(tenant.webhook(key, None, pull={"lease": "45s"})["id"])
    assert patched(client, key, new_webhook, {"pull": {}})["pull"] == {"lease": "45s"}
    patched(client, key, new_webhook, {"rate_limit": {}}, 422)


def test_only_named_fields_change(tenant: Organization, client: httpx.Client, control_plane: Cluster) -> None:
    """Concurrent changes of different fields, headers and labels are all kept."""
    key = tenant.service_key()
    name = str(tenant.webhook(key, labels={"keep": "a"})["id"])
    patched(client, key, name, {"headers": {"X-Keep": "a"}})
    changes: list[dict[str, Any]] = [{"description": "new"}, {"timeout": "3s"}, {"max_in_flight": 3}]
    changes += [{"headers": {f"X-{number}": "b"}} for number in range(6)]
    changes += [{"labels": {f"l{number}": "b"}} for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda change: patched(client, key, name, change), changes))
    document = client.get(f"/v1/webhooks/{name}", headers=key).json()
    assert (document["description"], document["timeout"], document["max_in_flight"]) == ("new", "3s", 3)
    assert document["header_names"] == sorted(["X-Keep", *(f"X-{number}" for number in range(6))])
    assert document["labels"] == {"keep": "a", **{f"l{number}": "b" for number in range(6)}}
    patched(client, key, name, {"headers": {"X-Keep": None}, "labels": {"keep": None}})
    assert "X-Keep" not in spec_of(control_plane, tenant, name)["headers"]
    assert patched(client, key, name, {"labels": None})["labels"] == {}


def test_labels_of_tools_are_not_shown_and_stay(
    tenant: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """The label that makes it a webhook of the API, and those of other tools, survive every change."""
    key = tenant.service_key()
    name = str(tenant.webhook(key, labels={"team": "a"})["id"])
    labels = {"argocd.argoproj.io/instance": "app", "stage": "b"}
    control_plane.objects.patch("WebhookEndpoint", name, tenant.name, {"metadata": {"labels": labels}})
    eventually(
        lambda: client.get(f"/v1/webhooks/{name}", headers=key).json()["labels"] == {"stage": "b", "team": "a"},
        "labels of people are shown",
    )
    assert patched(client, key, name, {"labels": None})["labels"] == {}
    remainder = {"app.kubernetes.io/managed-by": "hookwright-api", "argocd.argoproj.io/instance": "app"}
    assert stored(control_plane, tenant, name)["metadata"]["labels"] == remainder


def observed(control_plane: Cluster, organization: Organization, name: str) -> bool:
    """Return whether the operator has written the status of the newest state."""
    endpoint = stored(control_plane, organization, name)
    return bool(endpoint["metadata"]["generation"] == endpoint["status"]["observedGeneration"])


def test_an_etag_guards_a_change(tenant: Organization, client: httpx.Client, control_plane: Cluster) -> None:
    """POST, GET and PATCH return the ETag of the state; a change with an old one is a 412 and changes nothing."""
    key = tenant.service_key()
    body = {"url": "https://example.com/a", "events": ["opened"]}
    response = client.post("/v1/webhooks", json=body, headers=key)
    name = response.json()["id"]
    first = response.headers["etag"]
    path, headers = f"/v1/webhooks/{name}", {**key, "If-Match": first}
    assert client.patch(path, json={}, headers=headers).status_code == 200
    second_answer = client.patch(path, json={"description": "one"}, headers=headers)
    assert second_answer.status_code == 200
    assert second_answer.headers["etag"] not in ("", first)
    problem_of(client.patch(path, json={"description": "two"}, headers=headers), 412)
    assert client.get(path, headers=key).json()["description"] == "one"
    etag = second_answer.headers["etag"]
    # The operator writes the status between two changes.
    eventually(lambda: observed(control_plane, tenant, name), "the status is written")
    for match in (etag, "*", f'"1", {etag}'):
        answer = client.patch(path, json={"description": "one"}, headers={**key, "If-Match": match})
        assert answer.status_code == 200, answer.text
    problem = problem_of(client.patch(path, json={}, headers={**key, "If-Match": "nonsense"}), 422)
    assert problem["errors"][0]["field"] == "If-Match"


def test_of_simultaneous_changes_with_one_etag_one_wins(tenant: Organization, client: httpx.Client) -> None:
    """The API server refuses the others, and each gets a 412."""
    key = tenant.service_key()
    name = str(tenant.webhook(key)["id"])
    etag = client.get(f"/v1/webhooks/{name}", headers=key).headers["etag"]

    def send(number: int) -> int:
        headers = {**key, "If-Match": etag}
        patch = {"description": f"change {number}"}
        return client.patch(f"/v1/webhooks/{name}", json=patch, headers=headers).status_code

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(send, range(6))) == [200, 412, 412, 412, 412, 412]


def test_a_declared_endpoint_is_a_409_that_names_its_owner(
    tenant: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """Kubectl apply, server-side apply of another manager, and an edit of a webhook of the API.

    Its deletion is refused in the same words, because Git would make it again with another signing secret.
    """
    key = tenant.service_key()
    argo = ("--server-side", "--field-manager=argocd-controller")
    for name, options in {"orders": (), "argo": argo}.items():
        status = {
            "apiVersion": "hookwright.dev/v1alpha1",
            "kind": "WebhookEndpoint",
            "metadata": {
                "name": name,
                "namespace": tenant.name,
                "labels": {"app.kubernetes.io/managed-by": "hookwright-api"} if options else {},
            },
            "spec": {"projectRef": {"name": "billing"}, "url": "https://example.com/o", "events": ["bounced"]},
        }
        control_plane.kubectl("apply", *options, "-f", "-", stdin=json.dumps(status))
        path = f"/v1/webhooks/{name}"
        eventually(lambda path=path: client.get(path, headers=key).status_code == 200, f"{name} is shown")  # type: ignore[misc]
    problem = patched(client, key, "orders", {"description": "mine"}, 409)
    assert '"kubectl-client-side-apply"' in problem["detail"]
    assert "YAML" in problem["detail"]
    assert '"argocd-controller"' in patched(client, key, "argo", {"url": "https://example.com/x"}, 409)["detail"]

    new_webhook = str(tenant.webhook(key)["id"])
    change = '{"spec": {"timeout": "3s"}}'
    control_plane.kubectl("patch", "hwep", new_webhook, "-n", tenant.name, "--type=merge", "-p", change)
    assert '"kubectl-patch"' in patched(client, key, new_webhook, {"timeout": "4s"}, 409)["detail"]
    for name in ("orders", "argo", new_webhook):
        refusal = problem_of(client.delete(f"/v1/webhooks/{name}", headers=key), 409)["detail"]
        assert refusal == patched(client, key, name, {"description": "mine"}, 409)["detail"]
        assert "deletionTimestamp" not in (control_plane.objects.get("hwep", name, tenant.name) or {})["metadata"]
    given_back = '{"metadata": {"managedFields": [{}]}}'
    control_plane.kubectl("patch", "hwep", new_webhook, "-n", tenant.name, "--type=merge", "-p", given_back)
    assert patched(client, key, new_webhook, {"timeout": "4s"})["timeout"] == "4s"
    assert spec_of(control_plane, tenant, "argo")["url"] == "https://example.com/o"


def test_header_values_do_not_follow_another_target(
    tenant: Organization, client: httpx.Client, control_plane: Cluster, receiver: Received
) -> None:
    """Neither another host nor pull gets them, in one step or in two; with the values in the request, both do."""
    key = tenant.service_key()
    body = {"url": "https://example.com/a", "events": ["delivered"], "headers": {"X-Key": "of-the-receiver"}}
    name = str(client.post("/v1/webhooks", json=body, headers=key).json()["id"])
    before = spec_of(control_plane, tenant, name)
    patches: tuple[dict[str, Any], ...] = (
        {"url": f"{receiver.url}/mine"},
        {"url": "http://example.com/a"},
        {"url": None, "pull": {}},
        {"url": "https://example.com:8443/a", "headers": {"x-key": "mine"}},
    )
    for patch in patches:
        (fault,) = patched(client, key, name, patch, 422)["errors"]
        assert (fault["field"], "X-Key" in fault["message"]) == ("headers", True), patch
    assert spec_of(control_plane, tenant, name) == before
    patched(client, key, name, {"url": "HTTPS://EXAMPLE.com:443/b"})
    assert spec_of(control_plane, tenant, name)["headers"] == {"X-Key": "of-the-receiver"}
    patched(client, key, name, {"url": None, "pull": {}, "headers": {"X-Key": "new"}})
    patched(client, key, name, {"url": f"{receiver.url}/mine"}, 422)
    patched(client, key, name, {"url": f"{receiver.url}/mine", "pull": None, "headers": None})
    assert "headers" not in spec_of(control_plane, tenant, name)


def test_the_operator_owns_no_spec(tenant: Organization, client: httpx.Client, control_plane: Cluster) -> None:
    """Its finalizer, owner reference and status, and notes of kubectl, do not turn a webhook into a declared one."""
    key = tenant.service_key()
    name = str(tenant.webhook(key)["id"])
    note = {"metadata": {"annotations": {"example.com/note": "a"}}}
    control_plane.objects.patch("WebhookEndpoint", name, tenant.name, note)
    assert patched(client, key, name, {"description": "still mine"})["description"] == "still mine"


HOSTILE: dict[str, tuple[Any, int, str | None]] = {
    "no object": ([], 422, ""),
    "a text": ("url", 422, ""),
    "null": (None, 422, ""),
    "a url that is removed": ({"url": None}, 422, "url"),
    "events that are removed": ({"events": None}, 422, "events"),
    "no events": ({"events": []}, 422, "events"),
    "an unknown event": ({"events": ["delivered", "nonsense"]}, 422, "events[1]"),
    "a wildcard of no channel": ({"events": ["delivered", "soft_*"]}, 422, "events[1]"),
    "a rate limit without a number": ({"rate_limit": {"per_minute": None}}, 422, "rate_limit.per_minute"),
    "a header that Hookwright sets": ({"headers": {"X-Service-Signature": "mine"}}, 422, "headers"),
    "an injected header": ({"headers": {"X-A": "a\r\nX-B: b"}}, 422, "headers.X-A"),
    "an injected header name": ({"headers": {"X-A: a\r\nX-B": "b"}}, 422, "headers.X-A: a\r\nX-B"),
    "a ce- header of a cloudevent": ({"headers": {"ce-id": "1"}, "format": "cloudevents"}, 422, "headers"),
    "an unknown form": ({"extra_signature": {"form": "md5", "header": "X"}}, 422, "extra_signature.form"),
    "a taken header": ({"extra_signature": {"form": "hex", "header": "Host"}}, 422, "extra_signature.header"),
    "an expiry in the past": ({"expires_at": "2020-01-01T00:00:00Z"}, 422, "expires_at"),
    "an expiry without a zone": ({"expires_at": "2099-01-01T00:00:00"}, 422, "expires_at"),
    "a label of Kubernetes": ({"labels": {"kubernetes.io/managed-by": "x"}}, 422, "labels.kubernetes.io/managed-by"),
    "a label of Hookwright that is removed": ({"labels": {"hookwright.dev/x": None}}, 422, "labels.hookwright.dev/x"),
    "100 labels": ({"labels": {f"l{number}": "" for number in range(100)}}, 422, "labels"),
    "1,000 labels": ({"labels": {f"l{number}": "" for number in range(1_000)}}, 422, None),
    "a field of the spec": ({"signing": {"secretRef": {"name": "other"}}}, 422, "signing"),
    "another project": ({"projectRef": {"name": "shipping"}}, 422, "projectRef"),
    "metadata": ({"metadata": {"finalizers": []}}, 422, "metadata"),
    "deep JSON": (b'{"headers":' * 250 + b"1" + b"}" * 250, 400, None),
    "deep arrays": (b"[" * 250, 400, None),
    "half a surrogate pair": (b'{"description": "\\ud800"}', 400, None),
    "too much": (b'{"description": "' + b"x" * 256 * 1024 + b'"}', 413, None),
}  # fmt: skip


def test_hostile_patches_change_nothing(tenant: Organization, client: httpx.Client, control_plane: Cluster) -> None:
    """Each is refused with its field, and the object stays as it is."""
    key = tenant.service_key()
    name = str(tenant.webhook(key)["id"])
    before = spec_of(control_plane, tenant, name)
    for title, (patch, status, field) in HOSTILE.items():
        problem = patched(client, key, name, patch, status)
        if field is not None:
            assert [fault["field"] for fault in problem["errors"]] == [field], title
    path = f"/v1/webhooks/{name}"
    problem_of(client.patch(path, content=b"{}", headers={**key, "Content-Type": "text/plain"}), 415)
    problem_of(client.patch(path, content=b"", headers={**key, **MERGE_PATCH}), 400)
    problem_of(client.patch(f"{path}x", json={}, headers=key), 404)
    assert spec_of(control_plane, tenant, name) == before


def test_a_webhook_with_an_expiry_is_deleted_at_its_time(acme: Organization, client: httpx.Client) -> None:
    """It is extended by a change; a time in the past is refused, and nothing is made."""
    key = acme.service_key()
    body = {"url": "https://example.com/hooks", "events": ["opened"], "expires_at": "2020-01-01T00:00:00Z"}
    refusal = problem_of(client.post("/v1/webhooks", json=body, headers=key), 422)
    assert [fault["field"] for fault in refusal["errors"]] == ["expires_at"]

    def listed() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = client.get("/v1/webhooks", headers=key).json()["data"]
        return rows

    assert listed() == []
    new_webhook = acme.webhook(key, expires_at="2099-01-01T00:00:00Z")
    assert new_webhook["expires_at"] == "2099-01-01T00:00:00Z"
    soon = format_timestamp(datetime.now(UTC) + timedelta(seconds=3))
    assert patched(client, key, new_webhook["id"], {"expires_at": soon})["expires_at"] == soon
    eventually(lambda: listed() == [], "the webhook is deleted")


@pytest.mark.parametrize(
    "more", [{"labels": {f"l{number}": "a" * 63 for number in range(32)}}, {"description": "ö" * 1024}]
)
def test_the_bounds_are_accepted(tenant: Organization, client: httpx.Client, more: dict[str, Any]) -> None:
    """As many labels and characters as allowed are stored and shown, after a watch event too."""
    key = tenant.service_key()
    name = str(tenant.webhook(key, **more)["id"])
    patched(client, key, name, {"timeout": "9s"})
    document = client.get(f"/v1/webhooks/{name}", headers=key).json()
    assert {field: document[field] for field in more} == more
