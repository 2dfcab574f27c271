"""Projects by /v1: listed, created, deleted."""

import json

import httpx
from support.api_processes import GRANT, Organization, problem_of
from support.api_receiver import Received
from support.json_lines import entries
from support.polling import eventually

from hookwright_dev.cluster.installation import ApiProcess
from hookwright_dev.cluster.kubectl import Cluster


def test_without_the_right_a_project_is_neither_created_nor_deleted_and_the_answer_says_how(
    acme: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """The organization's namespace decides by RBAC; a project that /v1 created before stays."""
    labels = {"app.kubernetes.io/managed-by": "hookwright-api"}
    acme.apply({"kind": "Project", "metadata": {"name": "old", "labels": labels}})
    eventually(lambda: "old" in acme.projects(), "the project is visible")
    for answer in (
        client.post("/v1/projects", json={"name": "new"}, headers=acme.session()),
        client.delete("/v1/projects/old", headers=acme.session()),
    ):
        assert GRANT.format(acme.name) in problem_of(answer, 403)["detail"]
    resources = control_plane.objects.list("Project", acme.name)
    assert [project["metadata"]["name"] for project in resources] == ["billing", "old"]


def test_a_created_project_works_and_its_deletion_says_what_it_discards(
    acme: Organization, client: httpx.Client, control_plane: Cluster, api: ApiProcess, receiver: Received
) -> None:
    """Without force, a project with a webhook or a key is not deleted; with force, both are deleted."""
    acme.allow_projects()
    session = acme.session()
    answer = client.post("/v1/projects", json={"name": "shop", "display_name": "Shop"}, headers=session)
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == "/v1/projects/shop"
    document = answer.json()
    assert (document["display_name"], document["declared_by"], document["webhooks"], document["keys"]) == (
        "Shop",
        None,
        0,
        0,
    )
    assert document["delivery_log"] == {"payloads": "keep", "missed_events": "discard"}
    assert client.get("/v1/projects/shop", headers=session).json() == document
    assert client.get(f"/v1/projects/{document['uid']}", headers=session).json() == document
    problem = problem_of(client.post("/v1/projects", json={"name": "shop"}, headers=session), 409)
    assert "exists" in problem["detail"]

    key = acme.service_key("shop")
    webhook = acme.webhook(key, f"{receiver.url}/x")["id"]
    (row,) = client.get("/v1/projects", headers=key).json()["data"]
    assert (row["name"], row["webhooks"], row["keys"]) == ("shop", 1, 1)
    detail = problem_of(client.delete("/v1/projects/shop", headers=session), 409)["detail"]
    assert "deletes 1 webhooks with 0 pending deliveries, revokes 1 keys" in detail
    assert client.get("/v1/webhooks", headers=key).status_code == 200

    response = client.delete("/v1/projects/shop?force=true", headers=session)
    expected = {"name": "shop", "webhooks": 1, "keys": 1, "declared": 0, "pending_deliveries": 0}
    assert (response.status_code, response.json()) == (200, expected)
    problem_of(client.get("/v1/webhooks", headers=key), 401)
    problem_of(client.get("/v1/projects/shop", headers=session), 404)
    eventually(lambda: control_plane.objects.get("Project", "shop", acme.name) is None, "the Project is deleted")
    acts = [
        (line["action"], line["target"])
        for line in entries(api.log)
        if line["event"] == "audit" and line.get("project") == "shop" and line["organization"] == acme.name
    ]
    assert acts[0] == ("project.create", "shop")
    assert acts[-1] == ("project.delete", "shop")
    assert ("webhook.create", webhook) in acts


def test_a_declared_project_is_deleted_by_its_owner_only(acme: Organization, client: httpx.Client) -> None:
    """The 409 names the tool of the label app.kubernetes.io/managed-by, otherwise YAML."""
    acme.allow_projects()
    released_scene = {"name": "released", "labels": {"app.kubernetes.io/managed-by": "Helm"}}
    acme.apply({"kind": "Project", "metadata": released_scene})
    eventually(lambda: "released" in acme.projects(), "the project is visible")
    for name, owner in (("billing", "YAML"), ("released", "Helm")):
        answer = client.delete(f"/v1/projects/{name}?force=true", headers=acme.session())
        assert f"declared by {owner}" in problem_of(answer, 409)["detail"]
        assert client.get(f"/v1/projects/{name}", headers=acme.session()).json()["declared_by"] == owner


def test_a_wrong_name_is_a_422_that_names_the_field(acme: Organization, client: httpx.Client) -> None:
    """Names of Kubernetes have a form; a display name is printable."""
    for body, field in (
        ({"name": "Billing"}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "x" * 254}, "name"),
        ({"name": "x\n"}, "name"),
        ({"name": "shop", "display_name": "\u0007"}, "display_name"),
        ({"name": "shop", "label": "x"}, "label"),
        ({}, "name"),
    ):
        answer = client.post("/v1/projects", content=json.dumps(body), headers=acme.session() | JSON)
        assert [fault["field"] for fault in problem_of(answer, 422)["errors"]] == [field]


JSON = {"Content-Type": "application/json"}


def test_a_project_shows_what_its_delivery_log_keeps(acme: Organization, client: httpx.Client) -> None:
    """A change of the Project is shown in the list and in the answer for one project."""
    acme.apply(
        {
            "kind": "Project",
            "metadata": {"name": "private"},
            "spec": {"deliveryLog": {"payloads": "Omit", "missedEvents": "Keep"}},
        }
    )
    eventually(lambda: "private" in acme.projects(), "the project is visible")
    document = client.get("/v1/projects/private", headers=acme.session()).json()
    assert document["delivery_log"] == {"payloads": "omit", "missed_events": "keep"}
    rows = client.get("/v1/projects", headers=acme.session()).json()["data"]
    assert {row["name"]: row["delivery_log"] for row in rows}["private"] == document["delivery_log"]
