"""The pages of projects, endpoints and keys, used as people use them."""

import re
from urllib.parse import urlsplit

from playwright.sync_api import expect
from support.api_receiver import Received
from support.console_browser import Person


def test_an_endpoint_is_added_tested_changed_suspended_and_deleted(admin: Person, receiver: Received) -> None:
    """The whole life of an endpoint, from the empty project to the empty project."""
    page = admin.page
    admin.follow("Billing")
    admin.follow("Add an endpoint")
    page.get_by_label("URL of your receiver").fill(f"{receiver.url}/life")
    admin.press("Add the endpoint")
    fault = page.locator("#events-fault")
    expect(fault).to_be_visible()
    page.get_by_label("delivered", exact=True).check()
    page.get_by_label("Description").fill("Order service")
    page.get_by_text("More settings").click()
    page.get_by_label("Static headers").fill("X-Team: billing")
    admin.press("Add the endpoint")
    page.get_by_role("heading", name="The endpoint is ready").wait_for()
    secret = page.locator("#secret-value").inner_text()
    assert secret.startswith("whsec_")

    admin.follow("Send a test event")
    page.get_by_label("Event type").select_option("bounced")
    expect(page.get_by_label("Fields of the event, as JSON")).to_have_value(re.compile("550 5.1.1"))
    admin.press("Send the test")
    page.get_by_text("answered HTTP 200").wait_for()
    path, headers, body = receiver.requests[-1]
    assert (path, headers["x-team"]) == ("/life", "billing")
    assert b'"test":true' in body.replace(b" ", b"")

    admin.follow("Endpoints")
    page.get_by_role("link", name=f"{receiver.url}/life").click()
    change_and_suspend(admin)
    reveal_and_rotate(admin, secret)
    admin.follow("Overview")
    admin.follow("Delete…")
    admin.press("Delete the endpoint")
    page.get_by_text("The endpoint is deleted").wait_for()


def change_and_suspend(admin: Person) -> None:
    """Change an endpoint with the form, suspend it and resume it."""
    page = admin.page
    admin.follow("Edit")
    page.get_by_text("More settings").click()
    assert page.get_by_label("Static headers").input_value() == ""
    page.get_by_label("Timeout of an attempt").fill("7s")
    page.get_by_label("Remove X-Team").check()
    admin.press("Save")
    page.get_by_text("The endpoint is changed.").wait_for()
    expect(page.locator(".facts")).to_contain_text("7s")
    expect(page.locator(".facts")).not_to_contain_text("X-Team")

    admin.follow("Overview")
    admin.press("Suspend")
    page.get_by_text("Deliveries to the endpoint are suspended.").wait_for()
    admin.press("Resume")
    page.get_by_text("Deliveries to the endpoint are resumed.").wait_for()


def reveal_and_rotate(admin: Person, secret: str) -> None:
    """Reveal the secret of an endpoint and rotate it."""
    page = admin.page
    admin.follow("Signing secret")
    assert secret not in page.content()
    admin.press("Reveal")
    expect(page.locator("#secret-value")).to_have_text(secret)
    page.get_by_label("Overlap").fill("forever")
    admin.press("Rotate the secret")
    expect(page.locator("#overlap-fault")).to_be_visible()
    page.get_by_label("Overlap").fill("1h")
    admin.press("Rotate the secret")
    page.get_by_text("The secret is rotated.").wait_for()
    assert page.locator("#secret-value").inner_text() != secret
    page.get_by_text("The replaced secret also signs until").wait_for()


def test_an_endpoint_that_is_declared_in_yaml_is_read_only(admin: Person, receiver: Received) -> None:
    """The page names the owner and the command; it offers no change, and a form that is sent anyway is refused."""
    organization, page = admin.service.organization, admin.page
    spec = {"projectRef": {"name": "billing"}, "url": f"{receiver.url}/declared", "events": ["opened"]}
    organization.apply({"kind": "WebhookEndpoint", "metadata": {"name": "declared"}, "spec": spec})
    admin.open("/projects/billing/endpoints/declared")
    command = f"kubectl edit webhookendpoint declared -n {organization.name}"
    expect(page.locator("#edit-command")).to_have_text(command)
    assert page.get_by_role("button", name="Suspend").count() == 0
    assert page.get_by_role("link", name="Delete…").count() == 0
    token = page.locator("form[action='/console/logout'] input[name=form_token]").get_attribute("value")
    for action in ("suspend", "delete"):
        answer = page.request.post(
            f"{admin.service.url}/projects/billing/endpoints/declared/{action}",
            form={"form_token": token or ""},
            headers={"Origin": admin.service.api.url},
        )
        assert answer.status == 409, action
        assert "kubectl" in answer.text() or "declared" in answer.text()


def test_a_header_value_is_given_again_for_another_host(admin: Person, receiver: Received) -> None:
    """The form names the header at its field and keeps what was typed; with the value, the change is made."""
    organization, page = admin.service.organization, admin.page
    hook = organization.webhook(organization.service_key())
    header = {"headers": {"X-Key": "of-the-receiver"}}
    where = {"project": "billing"}
    path = f"/v1/webhooks/{hook['id']}"
    assert organization.client.patch(path, params=where, json=header, headers=organization.session()).is_success
    admin.open(f"/projects/billing/endpoints/{hook['id']}/edit")
    page.get_by_label("URL of your receiver").fill(f"{receiver.url}/moved")
    admin.press("Save")
    expect(page.locator("#headers-fault")).to_contain_text("give the values of X-Key again")
    expect(page.get_by_label("URL of your receiver")).to_have_value(f"{receiver.url}/moved")
    page.get_by_label("Static headers").fill("X-Key: another value")
    admin.press("Save")
    page.get_by_text(f"{receiver.url}/moved").first.wait_for()
    assert "of-the-receiver" not in page.content()


def test_endpoints_are_found_while_the_search_is_typed(admin: Person, receiver: Received) -> None:
    """The list changes without a new page, and the address keeps the search."""
    organization, page = admin.service.organization, admin.page
    spec = {"projectRef": {"name": "shop"}, "events": ["opened"]}
    organization.project("shop", "Shop")
    organization.apply(
        *(
            {
                "kind": "WebhookEndpoint",
                "metadata": {"name": f"hook-{number}"},
                "spec": {**spec, "url": f"{receiver.url}/shop/{number}"},
            }
            for number in range(60)
        )
    )
    admin.open("/projects/shop")
    page.get_by_text("60 endpoints").wait_for()
    assert page.locator("tbody tr").count() == 50
    admin.follow("Next page")
    expect(page.locator("tbody tr")).to_have_count(10)
    page.get_by_role("searchbox").fill("SHOP/59")
    page.get_by_text("1 endpoint", exact=True).wait_for()
    expect(page.locator("tbody tr")).to_have_count(1)
    assert "q=SHOP" in page.url
    page.get_by_role("searchbox").fill("nothing of this kind")
    page.get_by_text("No endpoint matches").wait_for()


def test_a_key_is_shown_once_and_revoked_after_a_confirmation(admin: Person) -> None:
    """The form keeps what was typed after a fault; the key works until it is revoked."""
    page, client = admin.page, admin.service.organization.client
    admin.open("/projects/billing/keys")
    admin.follow("Create a key")
    page.get_by_label("Name").fill("Order service")
    page.get_by_label(re.compile("Create, change")).uncheck()
    page.get_by_label("Expires").select_option("30")
    with page.expect_request(lambda request: request.method == "POST") as posted:
        admin.press("Create the key")
    key = page.locator("#key-value").inner_text()
    header = {"X-Service-Key": key}
    assert client.get("/v1/projects", headers=header).status_code == 200
    # A repetition of the form, as by reloading, creates no second key.
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": admin.service.api.url}
    repeated = page.request.post(page.url, data=posted.value.post_data, headers=headers)
    assert "cannot be shown again" in repeated.text()
    assert key not in repeated.text()
    admin.open("/projects/billing/keys")
    assert key not in page.content()
    expect(page.get_by_role("row", name=re.compile("Order service"))).to_have_count(1)
    page.get_by_role("link", name="Revoke Order service").click()
    admin.press("Revoke the key")
    page.get_by_text("The key is revoked.").wait_for()
    assert client.get("/v1/projects", headers=header).status_code == 401


def test_a_viewer_sees_no_change_and_may_make_none(viewer: Person) -> None:
    """Buttons of changes are missing, and their pages and forms are refused in words."""
    page = viewer.page
    viewer.open("/projects/billing")
    page.get_by_role("heading", name="Billing").wait_for()
    for name in ("Add an endpoint", "New project", "Create a key"):
        assert page.get_by_role("link", name=name).count() == 0
    token = page.locator("form[action='/console/logout'] input[name=form_token]").get_attribute("value") or ""
    for path in ("/new-project", "/projects/billing/new-key", "/projects/billing/new-endpoint"):
        for answer in (
            page.request.get(f"{viewer.service.url}{path}"),
            page.request.post(
                f"{viewer.service.url}{path}", form={"form_token": token}, headers={"Origin": viewer.service.api.url}
            ),
        ):
            assert answer.status == 403, path
            assert "this needs the role" in answer.text().lower()


def test_pages_weigh_little_and_files_are_kept_by_the_browser(admin: Person) -> None:
    """All files of a page have less than 100 KB; URLs of files contain a hash, and browsers keep them for a year."""
    page = admin.page
    sizes: dict[str, int] = {}
    page.on("response", lambda answer: sizes.update({urlsplit(answer.url).path: len(answer.body())}))
    admin.open("/projects/billing")
    page.wait_for_load_state("networkidle")
    assert len(sizes) >= 4
    assert sum(sizes.values()) < 100_000, sizes
    for path in sizes:
        if "/static/" in path:
            answer = page.request.get(f"{admin.service.api.url}{path}")
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert "x-ratelimit-limit" not in answer.headers


def test_times_are_local_with_utc_in_the_title_and_nothing_moves(admin: Person) -> None:
    """The script replaces the digits only."""
    page = admin.page
    admin.open("/account")
    moment = page.locator(".facts time")
    expect(moment).to_have_attribute("title", re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$"))
    expect(moment).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$"))
