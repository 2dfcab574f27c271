"""The pages of keys, and what holds for every page: roles, weight, files and times."""

import re
from urllib.parse import urlsplit

from playwright.sync_api import expect
from support.console_browser import Person


def test_a_key_is_shown_once_and_revoked_after_a_confirmation(admin: Person) -> None:
    """The form keeps what was typed after a fault; the key works until it is revoked."""
    page, client = admin.page, admin.service.organization.client
    admin.open("/projects/billing/keys")
    admin.follow("Create a key")
    page.get_by_label("Name").fill("Order service")
    page.get_by_label(re.compile("Create, change")).uncheck()
    page.get_by_label("Expires").select_option("30")
    with page.expect_request(lambda request: request.method == "POST") as context:
        admin.press("Create the key")
    key = page.locator("#key-value").inner_text()
    header = {"X-Service-Key": key}
    assert client.get("/v1/projects", headers=header).status_code == 200
    # A repetition of the form, as by reloading, creates no second key.
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": admin.service.api.url}
    answer = page.request.post(page.url, data=context.value.post_data, headers=headers)
    assert "cannot be shown again" in answer.text()
    assert key not in answer.text()
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
