"""The pages of endpoints, used as people use them."""

import hmac
import re

from playwright.sync_api import expect
from support.api_receiver import Received
from support.console_browser import ATTACK, Person
from support.polling import eventually

from hookwright_crds.events import OPERATIONAL_TYPES


def test_an_endpoint_is_added_tested_changed_suspended_and_deleted(admin: Person, receiver: Received) -> None:
    """The whole life of an endpoint, from the empty project to the empty project."""
    page = admin.page
    admin.follow("Billing")
    admin.follow("Add an endpoint")
    page.get_by_label("URL of your receiver").fill(f"{receiver.url}/life")
    admin.press("Add the endpoint")
    fault = page.locator("#events-fault")
    expect(fault).to_be_visible()
    expect(page.locator("[name=events]").first).to_be_focused()
    page.get_by_label("All of Email").check()
    expect(page.locator("[name=events]:checked")).to_have_count(7)
    page.get_by_label("All of Email").uncheck()
    page.get_by_label("delivered", exact=True).check()
    page.get_by_label("Description").fill("Order service")
    page.get_by_text("More settings").click()
    page.get_by_label("Static headers").fill("X-Team: billing")
    page.get_by_label("Form of an extra signature").select_option("github")
    page.get_by_label("Header of an extra signature").fill("X-Hub-Signature-256")
    admin.press("Add the endpoint")
    page.get_by_role("heading", name="The endpoint is ready").wait_for()
    secret = page.locator("#secret-value").inner_text()
    assert secret.startswith("whsec_")

    admin.follow("Send a test")
    page.get_by_label("Event type").select_option("bounced")
    expect(page.get_by_label("Fields of the event, as JSON")).to_have_value(re.compile("550 5.1.1"))
    receiver.body = b"stored as 17"
    admin.press("Send the test")
    page.get_by_text("answered HTTP 200").wait_for()
    expect(page.get_by_label("Body of the answer", exact=True)).to_have_text("stored as 17")
    path, headers, body = receiver.requests[-1]
    assert (path, headers["x-team"]) == ("/life", "billing")
    assert headers["x-hub-signature-256"] == f"sha256={hmac.digest(secret.encode(), body, 'sha256').hex()}"
    assert b'"test":true' in body.replace(b" ", b"")

    admin.follow("Show the request and the answer")
    expect(page.locator("#request-body")).to_contain_text("550 5.1.1")
    admin.follow("Overview")
    expect(page.get_by_role("link", name="Send a test", exact=True)).to_be_visible()
    admin.follow("Tell me when it fails")
    expect(page.locator("[name=events]:checked")).to_have_count(len(OPERATIONAL_TYPES))
    page.go_back()
    change_and_suspend(admin)
    reveal_and_rotate(admin, secret)
    admin.follow("Overview")
    admin.follow("Delete…")
    admin.press("Delete the endpoint")
    page.get_by_text("The endpoint is deleted").wait_for()


def test_an_own_type_is_read_chosen_and_tested(admin: Person, receiver: Received) -> None:
    """Its example is on the page of types, and in the form of a test of an endpoint that subscribes to it."""
    page, organization = admin.page, admin.service.organization
    admin.open("/projects/billing/event-types")
    expect(page.get_by_text("Your organization has none yet.")).to_be_visible()
    spec = {"meaning": f"A customer paid. {ATTACK}", "example": '{"messageId": "inv-17", "amount": 129.9}'}
    organization.apply({"kind": "EventType", "metadata": {"name": "invoice.paid"}, "spec": spec})

    def is_listed() -> bool:
        page.reload()
        return page.get_by_text("invoice.paid", exact=True).count() == 1

    eventually(is_listed, "the type is listed")
    page.get_by_text("invoice.paid", exact=True).click()
    expect(page.get_by_label("Example of invoice.paid")).to_contain_text("129.9")
    admin.follow("Endpoints")
    admin.follow("Add an endpoint")
    page.get_by_label("URL of your receiver").fill(f"{receiver.url}/ledger")
    page.get_by_label("invoice.paid", exact=True).check()
    admin.press("Add the endpoint")
    page.get_by_role("heading", name="The endpoint is ready").wait_for()
    admin.follow("Send a test")
    expect(page.get_by_label("Event type")).to_have_value("invoice.paid")
    admin.press("Send the test")
    page.get_by_text("answered HTTP 200").wait_for()
    assert receiver.requests[-1][2] == b'{"type":"invoice.paid","messageId":"inv-17","amount":129.9,"test":true}'
    assert page.evaluate("window.attacked") is None


def change_and_suspend(admin: Person) -> None:
    """Change an endpoint with the form, suspend it and resume it."""
    page = admin.page
    admin.follow("Edit")
    page.get_by_text("More settings").click()
    assert page.get_by_label("Static headers").input_value() == ""
    page.get_by_label("Timeout of an attempt").fill("7s")
    page.get_by_label("Remove X-Team").check()
    page.get_by_label("Form of an extra signature").select_option("none")
    page.get_by_label("Header of an extra signature").fill("")
    admin.press("Save")
    page.get_by_text("The endpoint is changed.").wait_for()
    expect(page.locator(".facts")).to_contain_text("7s")
    expect(page.locator(".facts")).not_to_contain_text(re.compile("X-Team|X-Hub"))

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
    """The form names the header at its field and keeps the other values; with the value, the change is made."""
    organization, page = admin.service.organization, admin.page
    hook = organization.webhook(organization.service_key())
    header = {"headers": {"X-Key": "of-the-receiver"}}
    query = {"project": "billing"}
    path = f"/v1/webhooks/{hook['id']}"
    assert organization.client.patch(path, params=query, json=header, headers=organization.session()).is_success
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
            for number in range(52)
        )
    )

    def has_all() -> bool:
        admin.open("/projects/shop")
        return page.get_by_text("52 endpoints").is_visible()

    eventually(has_all, "the view of the API has all endpoints", every=0.5)
    assert page.locator("tbody tr").count() == 50
    admin.follow("Next page")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_role("searchbox").fill("SHOP/51")
    page.get_by_text("1 endpoint", exact=True).wait_for()
    expect(page.locator("tbody tr")).to_have_count(1)
    assert page.url.endswith("/projects/shop?q=SHOP%2F51")
    page.get_by_role("searchbox").fill("nothing of this kind")
    page.get_by_text("No endpoint matches").wait_for()


def test_a_secret_header_and_oauth2_are_set_kept_and_removed(admin: Person, receiver: Received) -> None:
    """The receiver gets the value, which no page shows. Another host needs it again; a box removes it."""
    organization, page = admin.service.organization, admin.page
    admin.open("/projects/billing/new-endpoint")
    page.get_by_label("URL of your receiver").fill(f"{receiver.url}/secret")
    page.get_by_label("delivered", exact=True).check()
    page.get_by_text("More settings").click()
    page.get_by_label("Secret header: value").fill("console-t0ken")
    admin.press("Add the endpoint")
    expect(page.locator("#secret_headers-fault")).to_be_visible()
    assert page.get_by_label("Secret header: value").input_value() == ""
    page.get_by_label("Secret header: name").fill("Authorization")
    page.get_by_label("Secret header: value").fill("console-t0ken")
    admin.press("Add the endpoint")
    page.locator("#secret-value").wait_for()
    hook = next(
        row
        for row in organization.client.get(
            "/v1/webhooks", params={"project": "billing"}, headers=organization.session()
        ).json()["data"]
        if row["url"].endswith("/secret")
    )
    path = f"/projects/billing/endpoints/{hook['id']}"
    organization.client.post(f"/v1/webhooks/{hook['id']}/test", headers=organization.session())
    assert receiver.requests[-1][1]["authorization"] == "console-t0ken"
    admin.open(f"{path}/edit")
    assert "console-t0ken" not in page.content()
    page.get_by_label("URL of your receiver").fill("https://elsewhere.example/")
    admin.press("Save")
    expect(page.locator("#secret_headers-fault")).to_contain_text("give the values of Authorization again")
    page.get_by_label("URL of your receiver").fill(f"{receiver.url}/secret")
    page.get_by_label("Remove Authorization").check()
    for field, value in (
        ("client id", "me"),
        ("token url", f"{receiver.url}/token"),
        ("client secret", "console-s3cret"),
    ):
        page.get_by_label(f"OAuth2: {field}").fill(value)
    admin.press("Save")
    expect(page.locator(".facts")).to_contain_text(f"Authorization has a token of {receiver.url}/token")
    assert "console-s3cret" not in page.content()
    page.goto(page.url.replace("configuration", "edit"))
    page.get_by_text("More settings").click()
    page.get_by_label(f"Remove {receiver.url}/token").check()
    admin.press("Save")
    page.get_by_text("The endpoint is changed.").wait_for()
    expect(page.locator(".facts")).not_to_contain_text("Authorization")
