"""One service for all tests of the console, a browser for each module, and a person who is logged in for each test."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Browser
from support.api_processes import LIFTED, Organization, password_changes_allowed, running
from support.api_receiver import Received, receiving
from support.console_browser import ATTACK, MILLISECONDS, ConsoleService, Person, Shop
from support.needed_programs import acquire_needed

from hookwright_crds.users import UserRole
from hookwright_dev.browser import chromium, install_chromium
from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess, install
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.processes import tail

SETTINGS = LIFTED | {"HOOKWRIGHT_PASSWORD_CHANGE": "true"}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Install Chromium before the first test, because it can take minutes and no time limit covers it."""
    acquire_needed(session, {"browser": install_chromium})


@pytest.fixture(scope="module")
def console_service(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleService]:
    """Yield the service, on the session's control plane."""
    install(control_plane)
    settings = {"HOOKWRIGHT_STATUS_INTERVAL": "1", "HOOKWRIGHT_RETRY_SCHEDULE": "1s"}
    operator = OperatorProcess(control_plane, tmp_path_factory.mktemp("operator"), settings)
    name = f"console-{uuid4().hex[:8]}"
    control_plane.kubectl("create", "namespace", name)
    with ExitStack() as stack:
        operator.start()
        stack.callback(operator.stop)
        folder = tmp_path_factory.mktemp("api")
        api = stack.enter_context(running(ApiProcess(control_plane, folder, operator.intake_url, SETTINGS)))
        client = stack.enter_context(httpx.Client(base_url=api.url, trust_env=False, timeout=30.0))
        receiver = stack.enter_context(receiving())
        organization = Organization(control_plane, client, name)
        organization.project()
        stack.enter_context(password_changes_allowed(control_plane))
        yield ConsoleService(operator, api, receiver, organization)
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


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
    made = organization.webhook(key, f"{receiver.url}/{project}?a='%22%3Cb%3E", description=ATTACK)
    yield Shop(admin, receiver, project, key, made["id"])
    receiver.body, receiver.header = b"", ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Add the logs of operator and API, and the text of the page, to the report of a failed test."""
    report = yield
    arguments: dict[str, object] = getattr(item, "funcargs", {})
    service, person = arguments.get("console_service"), arguments.get("visitor")
    if report.failed and isinstance(service, ConsoleService):  # type: ignore[attr-defined]
        logs: list[Path] = [service.operator.log, service.api.log]
        report.sections += [(f"end of {log.name}", tail(log)) for log in logs]  # type: ignore[attr-defined]
    if report.failed and isinstance(person, Person):  # type: ignore[attr-defined]
        shown = f"{person.page.url}\n{person.page.inner_text('body')}"
        report.sections.append(("page", shown))  # type: ignore[attr-defined]
    return report
