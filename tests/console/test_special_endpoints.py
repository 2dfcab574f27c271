"""Special endpoints: messages that consumers take, from the form to the delivery log, and an expiry."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from playwright.sync_api import expect
from support.console_browser import Person, Shop
from support.polling import eventually

pytestmark = pytest.mark.slow

_WORDS: Final = """() => {
  const main = document.querySelector("main").cloneNode(true);
  main.querySelectorAll("pre").forEach((code) => code.remove());
  return main.textContent;
}"""
"""Returns the text of a page without code."""


def made_inbox(person: Person, project: str) -> str:
    """Create an endpoint with pull by the form of a project, and return its name."""
    page = person.page
    person.open(f"/projects/{project}/new-endpoint")
    page.get_by_label("URL of your receiver").fill("not a URL")
    page.get_by_label("Messages wait until a consumer takes them").check()
    expect(page.get_by_label("URL of your receiver")).to_be_hidden()
    page.get_by_text("More settings").click()
    for field in ("Timeout of an attempt", "Attempts in flight at once", "Rate limit, attempts a minute"):
        expect(page.get_by_label(field)).to_be_hidden()
    page.get_by_label("bounced", exact=True).check()
    page.get_by_label("Lease of a message").fill("two minutes")
    person.press("Add the endpoint")
    expect(page.locator("[id='pull.lease-fault']")).to_be_visible()
    page.get_by_label("Lease of a message").fill("2m")
    person.press("Add the endpoint")
    page.get_by_text("Messages now wait until a consumer takes them.").wait_for()
    assert page.get_by_role("link", name="Send a test").count() == 0
    person.follow("Show how to take messages")
    page.wait_for_url(re.compile(r"/endpoints/wh-\w+$"))
    return page.url.rpartition("/")[2]


def test_an_endpoint_with_pull_is_made_read_and_changed_to_a_url(shop: Shop) -> None:
    """The form shows the fields of the chosen way; the page counts messages and has the commands of a consumer."""
    person, page, client = shop.person, shop.person.page, shop.person.service.organization.client
    inbox = made_inbox(person, shop.project)
    expect(page.locator("#take-command")).to_contain_text(f"/v1/webhooks/{inbox}/messages?limit=100&wait=20s")
    expect(page.locator("#listen-command")).to_contain_text("--events 'bounced'")
    consumer = {"X-Service-Key": person.service.organization.key(shop.project, scopes=["pull", "send"])["key"]}
    for number in range(3):
        client.post("/v1/events", json={"type": "bounced", "messageId": f"m-{number}"}, headers=consumer)
    document = client.get(f"/v1/webhooks/{inbox}/messages?limit=2&wait=10s&lease=1h", headers=consumer).json()["data"]
    answer = client.post(
        f"/v1/webhooks/{inbox}/messages/nack",
        json={"ids": [document[0]["id"]], "delay": "1h", "reason": "queue full"},
        headers=consumer,
    )
    assert answer.json()["data"][0]["result"] == "nacked"
    person.open(f"/projects/{shop.project}/endpoints/{inbox}")
    numbers = page.get_by_label("Messages now")
    expect(numbers).to_contain_text("Waiting 1 With consumers 1 Due later 1", use_inner_text=True)
    expect(numbers).to_contain_text("since")
    _words_of_messages(person, shop.project, inbox)
    _change_to_a_url(shop, inbox)


def _words_of_messages(person: Person, project: str, inbox: str) -> None:
    page = person.page
    for path in ("", "/configuration", "/deliveries", "/verify", "/secret", "/replays"):
        person.open(f"/projects/{project}/endpoints/{inbox}{path}")
        text = page.evaluate(_WORDS)
        assert "URL" not in text, path
        assert "HTTP" not in text, path
    person.open(f"/projects/{project}/endpoints/{inbox}/deliveries")
    expect(page.locator(".log")).to_contain_text("queue full")
    page.locator(".log tbody tr", has_text="queue full").locator("th a").click()
    expect(page.get_by_role("heading", name="Message", exact=True)).to_be_visible()
    expect(page.locator("#delivery")).to_contain_text("It waits for a consumer")
    person.open(f"/projects/{project}/endpoints/{inbox}/test")
    page.get_by_role("heading", name="No test without a URL").wait_for()


def _change_to_a_url(shop: Shop, inbox: str) -> None:
    person, page = shop.person, shop.person.page
    person.open(f"/projects/{shop.project}/endpoints/{inbox}")
    person.follow("Edit")
    expect(page.get_by_label("URL of your receiver")).to_be_hidden()
    expect(page.get_by_label("Lease of a message")).to_have_value("2m")
    page.get_by_label("Send requests to a URL").check()
    person.press("Save")
    expect(page.locator("#url-fault")).to_be_visible()
    page.get_by_label("URL of your receiver").fill(f"{shop.receiver.url}/later")
    person.press("Save")
    page.get_by_text("The endpoint is changed.").wait_for()
    expect(page.locator(".facts")).to_contain_text("/later")

    def sent() -> bool:
        return any(path == "/later" for path, _, _ in shop.receiver.requests)

    eventually(sent, "the waiting message is sent to the URL")
    person.follow("Edit")
    page.get_by_label("Messages wait until a consumer takes them").check()
    person.press("Save")
    page.get_by_text("The endpoint is changed.").wait_for()
    expect(page.locator(".facts")).to_contain_text("30s")


def test_an_endpoint_with_pull_is_made_without_a_script(shop: Shop) -> None:
    """The choice works by the style sheet, and fields of the other way are ignored."""
    browser = shop.person.page.context.browser
    assert browser is not None
    context = browser.new_context(java_script_enabled=False, storage_state=shop.person.page.context.storage_state())
    person = Person(shop.person.service, context.new_page())
    inbox = made_inbox(person, shop.project)
    expect(person.page.locator("h1")).to_have_text(inbox)
    context.close()


def test_an_endpoint_expires_at_the_time_of_the_form(shop: Shop) -> None:
    """A time that has passed is refused at its field; another one is stored, shown, kept by a change, and removed."""
    person, page, client = shop.person, shop.person.page, shop.person.service.organization.client
    ends = (datetime.now(UTC) + timedelta(days=3)).replace(microsecond=0)
    person.open(f"/projects/{shop.project}/new-endpoint")
    page.get_by_label("URL of your receiver").fill("https://hooks.example.com/orders")
    page.get_by_label("bounced", exact=True).check()
    page.get_by_text("More settings").click()
    page.get_by_label("Expires, in UTC").fill("2020-01-31T12:00")
    person.press("Add the endpoint")
    expect(page.locator("#expires_at-fault")).to_have_text("must be a time in the future")
    page.get_by_label("Expires, in UTC").fill(f"{ends:%Y-%m-%dT%H:%M:%S}")
    person.press("Add the endpoint")
    person.follow("Show the endpoint")
    page.wait_for_url(re.compile(r"/endpoints/wh-\w+$"))

    name = page.url.rpartition("/")[2]
    session, query = person.service.organization.session(), {"project": shop.project}
    webhook = client.get(f"/v1/webhooks/{name}", params=query, headers=session).json()
    assert webhook["expires_at"] == f"{ends:%Y-%m-%dT%H:%M:%SZ}"
    here = f"/projects/{shop.project}/endpoints/{name}"
    person.open(f"{here}/edit")
    page.get_by_label("Description").fill("for three days")
    person.press("Save")
    expect(page.locator("dl.facts time")).to_have_attribute("datetime", webhook["expires_at"])
    person.open(f"{here}/edit")
    page.get_by_text("More settings").click()
    page.get_by_label("Expires, in UTC").fill("")
    person.press("Save")
    expect(page.locator("dl.facts").get_by_text("never")).to_be_visible()
    assert client.get(f"/v1/webhooks/{name}", params=query, headers=session).json()["expires_at"] is None
