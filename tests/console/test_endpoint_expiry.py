"""The time at which an endpoint expires, in the form and on the page of its configuration."""

import re
from datetime import UTC, datetime, timedelta

from playwright.sync_api import expect
from support.console_browser import Shop


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
    session, where = person.service.organization.session(), {"project": shop.project}
    webhook = client.get(f"/v1/webhooks/{name}", params=where, headers=session).json()
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
    assert client.get(f"/v1/webhooks/{name}", params=where, headers=session).json()["expires_at"] is None
