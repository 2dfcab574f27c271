"""A new organization's admin: from an organization without a right to the first delivery, without documentation."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Final
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import expect
from support.accessibility import violations_of
from support.api_processes import GRANT, Organization
from support.api_receiver import Received
from support.console_browser import ConsoleService, Person
from support.polling import eventually

from hookwright_crds.users import UserRole

_PROGRAMS: Final = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
"""The environment of a shell that finds ``hookwright``."""


@pytest.fixture
def newcomer(visitor: Person, console_service: ConsoleService) -> Iterator[tuple[Person, Organization]]:
    """Yield an admin of an organization that has nothing yet."""
    present, name = console_service.organization, f"new-{uuid4().hex[:8]}"
    present.cluster.objects.create("Namespace", name)
    organization = Organization(present.cluster, present.client, name)
    email = organization.user(UserRole.ADMIN)
    organization.wait_for_user(email)
    visitor.open("/")
    visitor.log_in(email)
    yield visitor, organization
    present.cluster.objects.delete("Namespace", name, wait=False)


def test_a_new_organization_gets_from_nothing_to_a_delivery(
    newcomer: tuple[Person, Organization], receiver: Received, axe: str
) -> None:
    """Without the right there is a command and no button; with it, each step is ticked as it happens."""
    person, organization = newcomer
    page = person.page
    command = page.locator("#grant-command")
    for path in ("/", "/new-project"):
        person.open(path)
        expect(command).to_have_text(GRANT.format(organization.name))
        assert page.get_by_role("link", name="Create the first project").count() == 0
        assert page.get_by_label("Name").count() == 0
    organization.cluster.kubectl(*shlex.split(command.inner_text())[1:])

    def allowed() -> bool:
        person.open("/")
        return page.get_by_role("link", name="Create the first project").count() == 1

    eventually(allowed, "the organization allows projects")
    person.follow("Create the first project")
    violations = [*violations_of(page, "the form of a project", axe)]
    page.get_by_label("Name").fill("orders")
    person.press("Create the project")
    page.wait_for_url("**/projects/orders/start*")
    expect(page.locator("#steps ol > .good")).to_have_count(1)

    person.press("Create a key")
    key = page.locator("#key-value").inner_text()
    expect(page.locator("#steps ol > .good")).to_have_count(2)
    page.get_by_label("URL of your receiver").fill("not a URL")
    person.press("Add the endpoint")
    expect(page.locator("#url-fault")).to_be_visible()
    page.get_by_label("URL of your receiver").fill(f"{receiver.url}/first")
    person.press("Add the endpoint")
    expect(page.locator("#steps ol > .good")).to_have_count(3)
    page.get_by_text("Waiting for an event").wait_for()
    violations += violations_of(page, "a new key", axe)
    expect(page.locator("#send-command")).to_contain_text(f"HOOKWRIGHT_API_KEY={key}")
    for name, answer in (("curl", '"deliveries":1'), ("send", "1 delivery")):
        line = page.locator(f"#{name}-command").inner_text()
        assert answer in subprocess.run(["sh", "-c", line], env=_PROGRAMS, stdout=PIPE, text=True, check=True).stdout
    expect(page.locator("#steps ol > .good")).to_have_count(4)
    expect(page.locator(".log tbody tr")).to_contain_text(f"{receiver.url}/first")
    expect(page.locator(".log tbody tr")).to_contain_text("HTTP 200")
    expect(page.locator("#key-value")).to_have_text(key)
    assert key not in page.url
    assert key not in person.service.api.log.read_text()
    person.open("/projects/orders/start")
    expect(page.locator("#steps ol > .good")).to_have_count(4)
    assert key not in page.content()
    assert [*violations, *violations_of(page, "an event", axe)] == []


def test_a_browser_at_the_root_gets_to_the_console_and_others_get_404(console_service: ConsoleService) -> None:
    """The answer to clients of the API is that of every unknown path."""
    browser = httpx.get(console_service.api.url, headers={"Accept": "text/html,*/*;q=0.8"}, trust_env=False)
    assert (browser.status_code, browser.headers["location"]) == (302, "/console/")
    client = httpx.get(console_service.api.url, trust_env=False)
    assert (client.status_code, client.headers["content-type"]) == (404, "application/problem+json")
