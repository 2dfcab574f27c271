"""The delivery log, one delivery, replays, charts and the check of signatures, used as support people use them."""

import re

import pytest
from playwright.sync_api import Browser, expect
from support.console_browser import ATTACK, Shop
from support.polling import eventually

from hookwright_crds.users import UserRole


def test_a_failed_delivery_is_found_understood_and_sent_again(shop: Shop) -> None:
    """The story of a support case, from the first page to the delivered event, with links and buttons alone."""
    person, page = shop.person, shop.person.page
    shop.receiver.status, shop.receiver.body = 500, b'{"error":"no database"}'
    shop.send("m-41", "m-42")
    shop.wait("failed", 2)
    person.open(f"/projects/{shop.project}")
    page.locator("tbody th a").click()
    person.follow("Deliveries")
    page.get_by_label("State").select_option("failed")
    page.get_by_label("Message id").fill("m-42")
    person.press("Show")
    expect(page.locator(".log tbody tr")).to_have_count(1)
    expect(page.locator(".log tbody tr")).to_contain_text("ada@example.com")
    assert page.url.endswith("/deliveries?status=failed&message_id=m-42")
    page.locator(".log tbody th a").click()
    expect(page.locator("#delivery")).to_contain_text("no database")
    expect(page.locator("#request-body")).to_contain_text('"messageId":"m-42"')
    expect(page.locator("#delivery")).to_contain_text("HTTP 500")

    shop.receiver.status = 200
    person.press("Send again")
    page.get_by_text("The delivery is sent again").wait_for()
    # The page follows the delivery by itself.
    expect(page.locator(".delivery-title")).to_contain_text("Delivered")

    person.follow("Replays")
    person.press("Count the deliveries")
    page.get_by_role("heading", name="1 delivery").wait_for()
    person.press("Send it again")
    page.get_by_text("The replay is running.").wait_for()
    expect(page.locator("#replays")).to_contain_text("Completed")
    expect(page.locator("#replays")).to_contain_text("1 of 1")
    shop.wait("delivered", 2)


@pytest.mark.slow
def test_the_reason_of_a_failing_endpoint_leads_to_its_latest_failed_delivery(shop: Shop) -> None:
    """The receiver's answer is one link away from the reason, and the chart shows the failed attempts."""
    person, page = shop.person, shop.person.page
    shop.receiver.status, shop.receiver.body = 500, b'{"error":"no database"}'
    shop.send("m-1")
    shop.wait("failed", 1)

    def shown() -> bool:
        person.open(f"{shop.path}/statistics?window=1h")
        is_counted = "failed attempt" in page.locator("#charts").inner_text() and page.locator(".bad-bar").count() == 1
        person.open(shop.path)
        return is_counted and page.get_by_role("link", name="The latest failed delivery").count() == 1

    eventually(shown, "the reason and the failed attempts")
    person.follow("The latest failed delivery")
    expect(page.locator("#delivery")).to_contain_text("no database")


def test_rows_are_sent_again_alone_and_marked_with_an_audit_line_each(shop: Shop) -> None:
    """The log with its filters is shown again; a refused delivery does not stop the others."""
    person, page = shop.person, shop.person.page
    shop.receiver.status = 500
    shop.send("m-1", "m-2", "m-3")
    shop.wait("failed", 3)
    shop.receiver.status = 200
    person.open(f"/projects/{shop.project}/deliveries?type=delivered")
    expect(page).to_have_title(re.compile("^Deliveries · Shop"))
    person.press("Send the marked ones again")
    page.get_by_text("Mark 1 to 50 deliveries.").wait_for()
    page.get_by_role("button", name="Send again m-1").click()
    page.get_by_text("Sent again.").wait_for()
    assert page.url.endswith("/deliveries?type=delivered&notice=deliveries-again")
    shop.wait("delivered", 1)
    page.get_by_label("Mark all").check()
    unknown = page.get_by_label("Mark m-1")
    unknown.evaluate("box => box.value = 'dlv_unknown'")
    person.press("Send the marked ones again")
    page.get_by_text("2 of 3 deliveries are sent again: the delivery does not exist.").wait_for()
    shop.wait("delivered", 3)
    lines = person.service.api.log.read_text().splitlines()
    assert len([line for line in lines if "delivery.retry" in line and shop.project in line]) == 3


def test_a_recipient_is_found_in_all_projects_and_the_message_sent_again(shop: Shop) -> None:
    """Also endpoints and keys are found; no recipient is in an address or a log, and a whole key is not shown again."""
    person, page = shop.person, shop.person.page
    shop.receiver.status = 500
    shop.send("m-1")
    shop.wait("failed", 1)
    shop.receiver.status = 200
    person.open("/account")

    def search(text: str) -> None:
        page.get_by_label("Search all projects").fill(text)
        page.get_by_label("Search all projects").press("Enter")
        page.get_by_role("heading", name="Search", exact=True).wait_for()

    search("Ada@Example.com")
    page.locator(".log tbody tr", has_text=shop.project).get_by_role("button").click()
    page.get_by_text("Sent again.").wait_for()
    assert page.url.endswith("/console/search/again")
    expect(page.get_by_label("Search all projects")).to_have_value("Ada@Example.com")
    shop.wait("delivered", 1)
    search("m-1")
    expect(page.locator(".log tbody tr", has_text=shop.project)).to_have_count(1)
    search(f"/{shop.project.upper()}")
    expect(page.locator(".found a")).to_have_attribute("href", f"/console{shop.path}")
    [key] = shop.key.values()
    search(key)
    expect(page.locator(".found a")).to_have_attribute("href", f"/console/projects/{shop.project}/keys")
    assert key not in page.content()
    search("nobody@example.com")
    page.get_by_role("heading", name="Nothing was found").wait_for()
    for log in (person.service.api.log, person.service.operator.log):
        assert "ada@example.com" not in log.read_text().lower()


@pytest.mark.slow
def test_the_log_is_live_until_the_logout(shop: Shop, browser: Browser) -> None:
    """A new delivery appears without a new page; the link with the focus keeps it; the logout leads to the login."""
    person, page = shop.person, shop.person.page
    shop.send("m-1")
    shop.wait("delivered", 1)
    person.open(f"{shop.path}/deliveries")
    expect(page.get_by_text("Live:")).to_be_visible()
    page.locator(".log tbody th a").focus()
    focused = page.evaluate("document.activeElement.getAttribute('href')")
    shop.send("m-2")
    expect(page.locator(".log tbody tr")).to_have_count(2, timeout=40_000)
    assert page.evaluate("document.activeElement.getAttribute('href')") == focused

    second = browser.new_context(storage_state=page.context.storage_state())
    tab = second.new_page()
    tab.goto(f"{person.service.url}/")
    tab.get_by_role("button", name="Log out").click()
    tab.get_by_text("You are logged out").wait_for()
    second.close()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible(timeout=40_000)


@pytest.mark.slow
def test_filters_of_time_use_the_zone_of_the_browser_and_faults_name_their_field(shop: Shop) -> None:
    """A time of the form is local; a form with wrong values keeps all values."""
    person, page = shop.person, shop.person.page
    shop.send("m-1")
    shop.wait("delivered", 1)
    zone = page.context.new_cdp_session(page)
    zone.send("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"})
    person.open(f"{shop.path}/deliveries")
    page.get_by_text("Exact times").click()
    page.get_by_label("From").fill("2026-01-31T12:00")
    person.press("Show")
    expect(page.locator(".log tbody tr")).to_have_count(1)
    assert "/deliveries?" in page.url
    assert "since_offset=330" in page.url
    expect(page.get_by_label("From")).to_have_value("2026-01-31T12:00")
    person.open(f"{shop.path}/deliveries?since=yesterday&type=delivered")
    expect(page.locator("#since-fault")).to_contain_text("must be a date and a time")
    expect(page.get_by_label("Event type")).to_have_value("delivered")
    person.open(f"{shop.path}/deliveries?message_id=nothing")
    page.get_by_role("heading", name="No delivery matches").wait_for()
    person.follow("Show all deliveries")
    expect(page.locator(".log tbody tr")).to_have_count(1)


@pytest.mark.slow
def test_a_request_of_the_receiver_is_checked_against_the_secret(shop: Shop) -> None:
    """A real request matches, and a changed one does not; neither the log of the API nor the page has the secret."""
    person, page = shop.person, shop.person.page
    shop.send("m-1", note="checked-body")
    shop.wait("delivered", 1)
    _, headers, body = next(request for request in reversed(shop.receiver.requests) if shop.project in request[0])
    person.open(f"{shop.path}/verify?language=go")
    expect(page.locator("#receiver-code")).to_contain_text("package main")
    page.get_by_label("Headers").fill("\n".join(f"{name}: {value}" for name, value in headers.items()))
    page.get_by_label("Body", exact=True).fill(body.decode())
    person.press("Check the signatures")
    expect(page.locator(".verdicts .good")).to_have_count(2)
    expect(page.locator(".verdicts")).to_contain_text("receivers accept it")
    expect(page.locator("#receiver-code")).to_contain_text("package main")
    page.get_by_label("Body", exact=True).fill(body.decode().replace("m-1", "m-2"))
    person.press("Check the signatures")
    expect(page.locator(".verdicts .bad")).to_have_count(2)
    service = person.service
    read = service.organization.client.get(
        f"/v1/webhooks/{shop.endpoint}/secret", headers=service.organization.session()
    )
    log = service.api.log.read_text()
    for secret in (read.json()["secret"], headers["x-service-signature"], "checked-body"):
        assert secret not in log
    assert read.json()["secret"] not in page.content()


@pytest.mark.slow
def test_charts_have_a_table_and_three_windows(shop: Shop) -> None:
    """The first page of the endpoint includes them; the numbers are text too."""
    person, page = shop.person, shop.person.page
    shop.send("m-1", "m-2")
    shop.wait("delivered", 2)

    def counted() -> bool:
        person.open(f"{shop.path}/statistics?window=1h")
        return "2 delivered" in page.locator("#charts").inner_text()

    eventually(counted, "the statistics count the deliveries")
    person.open(shop.path)
    expect(page.locator("#charts")).to_contain_text("2 delivered")
    # The fragment has another title.
    assert page.title().startswith("Overview · ")
    assert page.locator("#charts .good-bar").count() >= 1
    page.get_by_text("Numbers as a table").click()
    expect(page.locator(".chart-table tbody tr").first).to_be_visible()
    for window in ("7 days", "1 hour"):
        person.follow(window)
        expect(page.locator("#charts [aria-current]")).to_have_text(window)


def test_no_text_of_a_tenant_or_a_receiver_runs(shop: Shop) -> None:
    """Names, URLs, payloads, and bodies and headers of answers are shown as text on every page."""
    person, page = shop.person, shop.person.page
    shop.receiver.status, shop.receiver.body, shop.receiver.header = 500, ATTACK.encode(), ATTACK
    shop.send("m-<b>1", note=ATTACK)
    shop.wait("failed", 1)
    person.open(f"{shop.path}/deliveries")
    expect(page.get_by_text("Live:")).to_be_visible()
    page.locator(".log tbody th a").click()
    text = page.locator("#delivery").inner_text()
    assert text.count("window.attacked=1") >= 3
    delivery = page.url.rpartition("/")[2]
    paths = [
        f"{shop.path}/deliveries/{delivery}",
        f"{shop.path}/deliveries?message_id=%3Cb%3E&type=%22%3E%3Cscript%3E&event_id={ATTACK}&since={ATTACK}&cursor=%3Cb%3E",
        f"/projects/{shop.project}/deliveries",
        f"{shop.path}/replays",
        f"{shop.path}/verify?language={ATTACK}",
        f"{shop.path}/statistics?window={ATTACK}",
        f"{shop.path}/deliveries/{ATTACK.replace('/', '%2F')}",
        shop.path,
    ]
    for path in paths:
        person.open(path.replace("#", "%23"))
        page.wait_for_load_state("networkidle") if "deliveries?" not in path else None
        assert page.evaluate("window.attacked") is None, path
        assert page.locator("main b, main img, main script:not([src])").count() == 0, path
    person.open(f"{shop.path}/verify")
    page.get_by_label("Headers").fill(f"webhook-signature: {ATTACK}")
    page.get_by_label("Body", exact=True).fill(f"\n</textarea>{ATTACK}")
    person.press("Check the signatures")
    page.locator(".verdicts").wait_for()
    assert page.get_by_label("Body", exact=True).input_value() == f"\n</textarea>{ATTACK}"
    assert page.evaluate("window.attacked") is None


@pytest.mark.slow
def test_a_viewer_reads_all_and_sends_nothing_again(shop: Shop) -> None:
    """Buttons are missing, and forms that are sent anyway are refused."""
    person, page = shop.person, shop.person.page
    shop.send("m-1")
    shop.wait("delivered", 1)
    organization = person.service.organization
    email = organization.user(UserRole.VIEWER)
    organization.wait_for_user(email)
    page.context.clear_cookies()
    person.open("/")
    person.log_in(email)
    for path, tabs in (
        (f"/projects/{shop.project}/deliveries", ["Endpoints", "Deliveries", "Event types", "API keys", "Get started"]),
        (f"{shop.path}/deliveries", ["Overview", "Deliveries", "Replays", "Verify", "Configuration"]),
    ):
        person.open(path)
        assert page.locator(".tabs a").all_inner_texts() == tabs
        assert page.locator("[type=checkbox]").count() == 0
    page.locator(".log tbody th a").click()
    page.locator("#request-body").wait_for()
    assert page.get_by_role("button", name="Send again").count() == 0
    delivery = page.url.rpartition("/")[2]
    token = page.locator("input[name=form_token]").first.get_attribute("value") or ""
    for path, form in (
        (f"{shop.path}/deliveries/{delivery}/retry", {}),
        (f"{shop.path}/replays", {"period": "1h", "begin": "yes"}),
        (f"{shop.path}/verify", {"headers": "", "body": ""}),
    ):
        answer = page.request.post(
            f"{person.service.url}{path}",
            form={"form_token": token, **form},
            headers={"Origin": person.service.api.url},
        )
        assert answer.status == 403, path
    person.open(f"{shop.path}/verify")
    page.get_by_text("The check needs the role editor").wait_for()


@pytest.mark.slow
def test_a_delivery_is_found_only_below_its_own_endpoint_and_project(shop: Shop) -> None:
    """Ids of another endpoint or project are answered like ids that do not exist."""
    person = shop.person
    organization = person.service.organization
    second_webhook = organization.webhook(shop.key, f"{shop.receiver.url}/other", events=["bounced"])["id"]
    shop.send("m-1")
    shop.wait("delivered", 1)
    client = organization.client
    [delivery] = client.get("/v1/deliveries", params={"webhook": shop.endpoint}, headers=shop.key).json()["data"]
    for path in (
        f"/projects/{shop.project}/endpoints/{second_webhook}/deliveries/{delivery['id']}",
        f"/projects/billing/endpoints/{shop.endpoint}/deliveries",
        f"/projects/billing/endpoints/{shop.endpoint}/deliveries/live",
        f"{shop.path}/deliveries/dlv_unknown",
    ):
        assert person.page.request.get(f"{person.service.url}{path}").status == 404, path
