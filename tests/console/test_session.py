"""Login, logout and the protection of the session, in a real browser."""

import re

import httpx
import pytest
from support.api_processes import PASSWORD
from support.console_browser import ConsoleService, Person

from hookwright_crds.users import UserRole

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


def test_a_login_leads_to_the_wanted_page_and_a_logout_ends_the_session(
    visitor: Person, console_service: ConsoleService
) -> None:
    """A wrong password is a message on the form; after a logout the old cookie is refused."""
    organization, page = console_service.organization, visitor.page
    email = organization.user()
    organization.wait_for_user(email)
    visitor.open("/projects/billing/keys")
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill("a wrong password")
    visitor.press("Log in")
    assert "Email or password is wrong." in page.get_by_role("alert").inner_text()
    assert page.get_by_label("Email").input_value() == email
    visitor.log_in(email)
    assert page.url == f"{console_service.url}/projects/billing/keys"
    (cookie,) = page.context.cookies()
    assert (cookie["name"], cookie["path"]) == ("hookwright_session", "/console")
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert page.evaluate("document.cookie") == ""
    visitor.press("Log out")
    page.get_by_text("You are logged out, on every device.").wait_for()
    assert page.context.cookies() == []
    old = httpx.get(f"{console_service.url}/", cookies={cookie["name"]: cookie["value"]}, trust_env=False)
    assert old.status_code == 303
    assert old.headers["location"] == "/console/login"


def test_every_page_has_the_headers_that_protect_it(admin: Person) -> None:
    """The policy permits files of this origin only, and no inline script or style; nothing is cached."""
    for path in ("/", "/projects/billing", "/account", "/nowhere"):
        answer = admin.page.request.get(f"{admin.service.url}{path}")
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"
        assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son[a-z]+=", answer.text())


def test_a_form_of_another_site_or_another_session_is_refused(admin: Person) -> None:
    """The origin must be ours, and the form must have the token of its session."""
    url, service = f"{admin.service.url}/new-project", admin.service
    (cookie,) = admin.page.context.cookies()
    session = {cookie["name"]: cookie["value"]}
    admin.open("/new-project")
    token = admin.page.locator("form[action='/console/logout'] input[name=form_token]").get_attribute("value")
    form = {"name": "from-elsewhere", "form_token": token or ""}
    ours = {"Sec-Fetch-Site": "same-origin"}

    def post(headers: dict[str, str], fields: dict[str, str]) -> httpx.Response:
        return httpx.post(url, data=fields, headers=headers, cookies=session, trust_env=False)

    for headers in (
        {},
        {"Sec-Fetch-Site": "cross-site", "Origin": service.api.url},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ):
        refusal = post(headers, form)
        assert refusal.status_code == 403, headers
        assert "sent by another site" in refusal.text
    for fields in ({"name": "x"}, {"name": "x", "form_token": "0" * 64}):
        refusal = post(ours, fields)
        assert refusal.status_code == 403
        assert "belongs to another session" in refusal.text
    assert "from-elsewhere" not in service.organization.projects()
    # Both forms of the check accept our own origin; the organization itself does not allow new projects here.
    for headers in (ours, {"Origin": service.api.url}):
        answer = post(headers, form)
        assert "sent by another site" not in answer.text
        assert answer.status_code == 403
        assert "does not allow" in answer.text


def test_a_link_of_another_site_opens_the_page_with_the_session(admin: Person) -> None:
    """The first request has no cookie (SameSite=Strict), so the page loads itself again as a request of our own."""
    answer = httpx.get(
        f"{admin.service.url}/projects/billing?q=a",
        headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        trust_env=False,
    )
    assert answer.status_code == 200
    assert 'content="0;url=/console/projects/billing?q=a"' in answer.text
    page = admin.page
    target = f"{admin.service.url}/projects/billing"
    second = admin.service.api.url.replace("127.0.0.1", "localhost")
    page.goto(f"{second}/console/login")
    page.evaluate("url => { location.href = url }", target)
    page.wait_for_url(target)
    page.get_by_role("heading", name="Billing").wait_for()


@pytest.mark.slow
def test_a_new_password_ends_the_other_sessions(visitor: Person, console_service: ConsoleService) -> None:
    """The form continues with a new session; a wrong current password is a message at its field."""
    organization, page = console_service.organization, visitor.page
    email = organization.user(UserRole.VIEWER)
    organization.wait_for_user(email)
    visitor.open("/account")
    visitor.log_in(email)
    before = page.context.cookies()[0]["value"]

    def change(current: str, new: str, repeated: str) -> None:
        page.get_by_label("Current password").fill(current)
        page.get_by_label("New password", exact=True).fill(new)
        page.get_by_label("New password again").fill(repeated)
        visitor.press("Change the password")

    change("wrong password", "four other random words", "four other random words")
    page.get_by_text("is wrong").wait_for()
    change(PASSWORD, "four other random words", "something else entirely")
    page.get_by_text("must be the same as the new password").wait_for()
    change(PASSWORD, "four other random words", "four other random words")
    page.get_by_text("Your password is changed.").wait_for()
    assert page.context.cookies()[0]["value"] != before
    old = httpx.get(f"{console_service.url}/account", cookies={"hookwright_session": before}, trust_env=False)
    assert old.status_code == 303
