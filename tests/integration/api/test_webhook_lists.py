"""The list of webhooks in pages."""

from datetime import UTC, datetime

import httpx
import pytest
from support.api_processes import Organization, problem_of
from support.polling import eventually


def test_the_pages_have_each_webhook_once_in_the_order_of_the_list(acme: Organization, client: httpx.Client) -> None:
    """Without a limit the answer has all; a webhook that is made meanwhile is on a later page."""
    key = acme.service_key()
    for _ in range(5):
        acme.webhook(key)
    whole_page = client.get("/v1/webhooks", headers=key).json()
    assert (len(whole_page["data"]), whole_page["next"]) == (5, None)
    # The list is ordered by seconds and then by id, so a webhook of the same second may belong to an earlier page.
    last = max(row["created_at"] for row in whole_page["data"])
    eventually(lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") > last, "another second")
    names: list[object] = []
    params: dict[str, str] = {"limit": "2"}
    while True:
        page = client.get("/v1/webhooks", params=params, headers=key).json()
        assert len(page["data"]) <= 2
        names += page["data"]
        if page["next"] is None:
            break
        params["cursor"] = page["next"]
        if len(names) == 2:
            later = acme.webhook(key)
    whole_page = client.get("/v1/webhooks", headers=key).json()
    assert names == whole_page["data"]
    assert later["id"] in [row["id"] for row in whole_page["data"]]
    rest = client.get("/v1/webhooks", params={"cursor": params["cursor"]}, headers=key).json()
    assert (rest["data"], rest["next"]) == (whole_page["data"][4:], None)


def test_a_page_after_a_deleted_webhook_goes_on(acme: Organization, client: httpx.Client) -> None:
    """The cursor is a position, which exists without its webhook."""
    key = acme.service_key()
    for _ in range(3):
        acme.webhook(key)
    rows = client.get("/v1/webhooks", headers=key).json()["data"]
    page = client.get("/v1/webhooks", params={"limit": "1"}, headers=key).json()
    client.delete(f"/v1/webhooks/{rows[0]['id']}", headers=key)
    following = client.get("/v1/webhooks", params={"cursor": page["next"]}, headers=key).json()
    assert following["data"] == rows[1:]


def test_the_list_can_be_narrowed_to_a_status(acme: Organization, client: httpx.Client) -> None:
    """Pages have only webhooks with the status."""
    key = acme.service_key()
    active = acme.webhook(key)["id"]
    paused_name = acme.webhook(key, enabled=False)["id"]
    spec = {"projectRef": {"name": "billing"}, "url": "https://example.com", "events": ["opened"]}
    broken = {**spec, "signing": {"secretRef": {"name": "missing"}}}
    acme.apply({"kind": "WebhookEndpoint", "metadata": {"name": "broken"}, "spec": broken})
    eventually(lambda: client.get("/v1/webhooks/broken", headers=key).json().get("status") == "error", "broken")
    for status, value in (("active", [active]), ("suspended", [paused_name]), ("error", ["broken"]), ("failing", [])):
        page = client.get("/v1/webhooks", params={"status": status, "limit": "5"}, headers=key).json()
        assert [row["id"] for row in page["data"]] == value


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=251", "limit"),
        ("limit=x", "limit"),
        ("cursor=1", "cursor"),
        ("cursor=1.UPPER", "cursor"),
        ("cursor=1.a%0A", "cursor"),
        ("cursor=%D9%A3.a", "cursor"),
        (f"cursor={'1' * 13}.a", "cursor"),
        (f"cursor=1.{'a' * 600}", "cursor"),
        ("status=lost", "status"),
    ],
)
def test_a_wrong_query_is_a_422_that_names_it(
    tenant: Organization, client: httpx.Client, query: str, field: str
) -> None:
    """A cursor of another form is not the beginning of the list."""
    problem = problem_of(client.get(f"/v1/webhooks?{query}", headers=tenant.service_key()), 422)
    assert [fault["field"] for fault in problem["errors"]] == [field]
