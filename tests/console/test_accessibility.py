"""Every page for everybody: axe-core in both themes and at both widths, the keyboard alone, and no layout shift."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Final

import pytest
from playwright.sync_api import Page, expect
from support.accessibility import VIEWS, violations_of
from support.console_browser import Shop
from support.polling import eventually

from hookwright_api.console.routes import ROUTES

pytestmark = pytest.mark.slow

_DELIVERIES: Final = "/console/projects/{project}/endpoints/{endpoint}/deliveries"
_OTHERWISE: Final = {f"{_DELIVERIES}/latest-failure"}
"""Paths that are no pages."""
_SHIFTS: Final = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    const moved = entry.sources.map(({node}) => String(node && (node.outerHTML || node.data)).slice(0, 80));
    window.shifts.push([entry.value, ...moved]);
  }
}).observe({type: "layout-shift", buffered: true});
"""


class Tour:
    """The paths of every page of a project with a failed delivery, a key, and an endpoint with pull."""

    def __init__(self, shop: Shop) -> None:
        organization = shop.person.service.organization
        self.project = f"/projects/{shop.project}"
        self.endpoint = shop.path
        self.key = organization.key(shop.project)["id"]
        self.pulled = f"{self.project}/endpoints/" + str(
            organization.webhook(shop.key, None, pull={}, events=["clicked"])["id"]
        )
        organization.client.post("/v1/events", json={"type": "clicked", "messageId": "m-0"}, headers=shop.key)
        shop.receiver.status, shop.receiver.body = 500, b"no database"
        shop.send("m-1")
        shop.wait("failed", 1)
        shop.receiver.status = 200
        shop.send("m-2")
        shop.wait("delivered", 1)
        query = {"webhook": shop.endpoint, "status": "failed"}
        violations = organization.client.get("/v1/deliveries", params=query, headers=shop.key).json()["data"]
        self.delivery = f"{shop.path}/deliveries/{violations[0]['id']}"
        spec = {"projectRef": {"name": shop.project}, "url": f"{shop.receiver.url}/x", "events": ["opened"]}
        organization.apply({"kind": "WebhookEndpoint", "metadata": {"name": shop.project}, "spec": spec})
        self.declared = f"{self.project}/endpoints/{shop.project}"

    def special_paths(self) -> Iterator[str]:
        """Yield pages in a special state."""
        yield from ("/?rates=1", "/nowhere", f"{self.project}?q=nothing", self.declared)
        yield from (f"{self.endpoint}/deliveries?{query}" for query in ("since=wrong", "message_id=nothing"))
        yield f"{self.pulled}/edit"

    def paths(self) -> Iterator[str]:
        """Yield every page."""
        yield from ("/", "/account", "/new-project", "/search")
        for part in ("", "/deliveries", "/event-types", "/keys", "/new-key", "/start", "/new-endpoint", "/delete"):
            yield self.project + part
        yield from (f"{self.project}/keys/{self.key}/revoke", self.delivery, self.pulled, f"{self.pulled}/verify")
        for part in (
            "", "/statistics?window=1h", "/deliveries", "/replays", "/verify?language=java", "/configuration",
            "/secret", "/edit", "/test", "/delete",
        ):  # fmt: skip
            yield self.endpoint + part

    def moving_paths(self) -> Iterator[str]:
        """Yield pages to which parts are added after they are shown."""
        yield from ("/", "/account", self.delivery, self.pulled)
        yield from (self.project + part for part in ("", "/deliveries", "/keys", "/start"))
        yield from (self.endpoint + part for part in ("", "/deliveries", "/replays", "/verify", "/secret"))


def test_every_page_is_accessible_in_both_themes_and_at_both_widths(shop: Shop, axe: str) -> None:
    """axe-core finds no violation, and nothing is wider than the screen; no page is missing in this test."""
    person, page = shop.person, shop.person.page
    tour = Tour(shop)
    paths = [*tour.paths(), *tour.special_paths()]
    for route in ROUTES:
        pattern = re.compile(re.sub(r"\{\w+\}", "[^/]+", route.path.removeprefix("/console")))
        if route.method == "GET" and route.path not in _OTHERWISE and route.path != "/console/login":
            assert any(pattern.fullmatch(path.partition("?")[0]) for path in paths), route.path
    violations: list[str] = []
    for path in paths:
        person.open(path)
        violations += violations_of(page, path, axe, VIEWS)
    person.press("Log out")
    page.get_by_role("heading", name="Log in").wait_for()
    assert not [*violations, *violations_of(page, "/login", axe, VIEWS)], "\n".join(violations)


def test_nothing_moves_while_a_page_loads(shop: Shop) -> None:
    """Chromium measures a layout shift of 0, also when the rates, the charts and the live log arrive."""
    person, page = shop.person, shop.person.page
    tour = Tour(shop)
    page.add_init_script(_SHIFTS)
    moved = {}
    for width, path in product((1200, 390), tour.moving_paths()):
        page.set_viewport_size({"width": width, "height": 1000})
        person.open(path)
        page.wait_for_load_state("load")
        expect(page.locator("[hx-trigger=load]")).to_have_count(0)
        if path == f"{tour.endpoint}/deliveries":
            expect(page.get_by_text("Live:")).to_be_visible()
        # Two frames: the observer hears of a shift after the frame that has it.
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))")
        if shifts := page.evaluate("window.shifts"):
            moved[width, path] = shifts
    assert moved == {}


def test_the_failing_endpoint_is_found_and_its_delivery_sent_again_with_the_keyboard_alone(shop: Shop) -> None:
    """From the first page: which endpoint fails, why, and send it again; the focus is always visible."""
    person, page = shop.person, shop.person.page
    shop.receiver.status, shop.receiver.body = 500, b"no database"
    shop.send("m-1")
    shop.wait("failed", 1)
    attention = f"/console/projects/{shop.project}?status=attention"

    def counted() -> bool:
        person.open("/")
        return page.locator(f"a[href='{attention}']").count() == 1

    eventually(counted, "the first page counts the endpoint")
    press_to(page, attention)
    press_to(page, f"/console{shop.path}")
    expect(page.locator("main")).to_contain_text("500")
    press_to(page, f"/console{shop.path}/deliveries?status=failed")
    page.locator(".log tbody th a").wait_for()
    press_to(page, page.locator(".log tbody th a").get_attribute("href") or "")
    expect(page.locator("#delivery")).to_contain_text("no database")
    shop.receiver.status = 200
    press_to(page, "Send again")
    page.get_by_text("The delivery is sent again").wait_for()
    shop.wait("delivered", 1)


def press_to(page: Page, wanted: str) -> None:
    """Press Tab until the focus is on a link to a path, or on a button with a text; then press Enter."""
    look = "() => [document.activeElement.getAttribute('href'), document.activeElement.textContent.trim()]"
    for _ in range(80):
        page.keyboard.press("Tab")
        if wanted in page.evaluate(look):
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", wanted
            page.keyboard.press("Enter")
            if wanted.startswith("/"):
                page.wait_for_url(re.compile(f"{re.escape(wanted)}$"))
            return
    raise AssertionError(f"the focus does not reach {wanted}")
