"""One service for all tests of the console, a browser for each module, and a person who is logged in for each test."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Browser
from support.api_processes import Organization, password_changes_allowed
from support.api_receiver import Received, receiving
from support.console_browser import ATTACK, MILLISECONDS, ConsoleService, Person, Shop
from support.needed_programs import need
from support.stack import PASSWORD_CHANGE, QUICK_RETRY, Stack

from hookwright_crds.users import UserRole
from hookwright_dev.browser import chromium, install_chromium
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.node_packages import acquire_node_packages
from hookwright_dev.processes import tail

need("browser", install_chromium)
need("axe", acquire_node_packages)


@pytest.fixture(scope="module")
def control_plane(shared_cluster: Cluster) -> Cluster:
    """Return the cluster of the stack, which goes on."""
    return shared_cluster


@pytest.fixture(scope="module")
def console_service(stack: Stack) -> Iterator[ConsoleService]:
    """Yield the service, on the cluster of the stack."""
    operator = stack.operator(QUICK_RETRY)
    api = stack.api(operator, PASSWORD_CHANGE)
    name = f"console-{uuid4().hex[:8]}"
    stack.cluster.objects.create("Namespace", name)
    with (
        httpx.Client(base_url=api.url, trust_env=False, timeout=30.0) as client,
        receiving() as receiver,
        password_changes_allowed(stack.cluster),
    ):
        organization = Organization(stack.cluster, client, name)
        organization.project()
        yield ConsoleService(operator, api, receiver, organization)
    stack.cluster.objects.delete("Namespace", name, wait=False)


@pytest.fixture(scope="session")
def axe() -> str:
    """Return the script of axe-core."""
    return (acquire_node_packages() / "axe-core" / "axe.min.js").read_text()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield a browser. It is started for each module, because asyncio cannot be used while it runs."""
    with chromium() as started:
        yield started


@pytest.fixture
def visitor(console_service: ConsoleService, browser: Browser) -> Iterator[Person]:
    """Yield a person who is not logged in; a fault of a script, or a violation of the policy, fails the test."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, locale="en-GB")
    context.set_default_timeout(MILLISECONDS)
    person = Person(console_service, context.new_page())
    person.watch()
    yield person
    context.close()
    assert person.faults == []


@pytest.fixture
def admin(visitor: Person) -> Person:
    """Return a person who is logged in as an admin, at the first page."""
    return _logged_in(visitor, UserRole.ADMIN)


@pytest.fixture
def viewer(visitor: Person) -> Person:
    """Return a person who is logged in as a viewer."""
    return _logged_in(visitor, UserRole.VIEWER)


def _logged_in(person: Person, role: UserRole) -> Person:
    organization = person.service.organization
    email = organization.user(role)
    organization.wait_for_user(email)
    person.open("/")
    person.log_in(email)
    return person


@pytest.fixture
def receiver(console_service: ConsoleService) -> Received:
    """Return the receiver of the service; it answers 200 when a test begins."""
    console_service.receiver.status = 200
    return console_service.receiver


@pytest.fixture
def shop(admin: Person, receiver: Received) -> Iterator[Shop]:
    """Yield a new project with one endpoint."""
    organization = admin.service.organization
    project = organization.project(f"shop-{uuid4().hex[:6]}", f"Shop {ATTACK}")
    key = organization.service_key(project)
    name = organization.webhook(key, f"{receiver.url}/{project}?a='%22%3Cb%3E", description=ATTACK)
    yield Shop(admin, receiver, project, key, name["id"])
    receiver.body, receiver.header = b"", ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Add the logs of operator and API, and the text of the page, to the report of a failed test."""
    report = yield
    arguments: dict[str, object] = getattr(item, "funcargs", {})
    service, person = arguments.get("console_service"), arguments.get("visitor")
    if report.failed and isinstance(service, ConsoleService):  # type: ignore[attr-defined]
        logs: list[Path] = [service.operator.log, service.api.log]
        report.sections += [(f"end of {log.name}", tail(log)) for log in logs]  # type: ignore[attr-defined]
    if report.failed and call.when == "call" and isinstance(person, Person):  # type: ignore[attr-defined]
        text = f"{person.page.url}\n{person.page.inner_text('body')}"
        report.sections.append(("page", text))  # type: ignore[attr-defined]
    return report
