"""The console for tests, and a person who uses it in Chromium."""

from dataclasses import dataclass, field
from typing import Final

from playwright.sync_api import ConsoleMessage, Page, expect
from support.api_processes import PASSWORD, Organization
from support.api_receiver import Received
from support.polling import eventually

from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess

MILLISECONDS: Final = 60_000
"""Time limit of one step of the browser; a busy machine is no fault."""
ATTACK: Final = "</pre></script><script>window.attacked=1</script><img src=x onerror='window.attacked=1'>\"'><b>"
"""Text that would run a script where it is not escaped."""

expect.set_options(timeout=MILLISECONDS)


@dataclass(slots=True)
class ConsoleService:
    """An operator, an API with the console, a receiver, and an organization with the project billing."""

    operator: OperatorProcess
    api: ApiProcess
    receiver: Received
    organization: Organization

    @property
    def url(self) -> str:
        """Base URL of the console, without the slash at its end."""
        return f"{self.api.url}/console"


@dataclass(slots=True)
class Person:
    """A person at a browser.

    Attributes:
        faults: errors of scripts, and violations of the content security policy.
    """

    service: ConsoleService
    page: Page
    faults: list[str] = field(default_factory=list)

    def watch(self) -> None:
        """Record the faults of every page from now on."""

        def hear(message: ConsoleMessage) -> None:
            # The browser also reports each refused request, which a test may want.
            if message.type == "error" and "Failed to load resource" not in message.text:
                self.faults.append(message.text)

        self.page.on("console", hear)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))

    def open(self, path: str) -> None:
        """Open a page of the console; ``path`` begins after /console."""
        self.page.goto(f"{self.service.url}{path}")

    def log_in(self, email: str, password: str = PASSWORD) -> None:
        """Log in with the form that the browser shows."""
        self.page.get_by_label("Email").fill(email)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Log in").click()
        self.page.get_by_role("button", name="Log out").wait_for()

    def press(self, name: str) -> None:
        """Press a button."""
        self.page.get_by_role("button", name=name, exact=True).click()

    def follow(self, name: str) -> None:
        """Follow a link."""
        self.page.get_by_role("link", name=name, exact=True).first.click()


@dataclass(slots=True)
class Shop:
    """A project with one endpoint, whose receiver answers as the test says."""

    person: Person
    receiver: Received
    project: str
    key: dict[str, str]
    endpoint: str

    @property
    def path(self) -> str:
        """The endpoint's page."""
        return f"/projects/{self.project}/endpoints/{self.endpoint}"

    def send(self, *messages: str, note: str = "") -> None:
        """Send an event for each message id."""
        client = self.person.service.organization.client
        for message in messages:
            event = {"type": "delivered", "messageId": message, "recipient": "ada@example.com", "note": note}
            answer = client.post("/v1/events", json=event, headers=self.key)
            assert answer.json()["deliveries"] == 1, answer.text

    def wait(self, status: str, count: int) -> None:
        """Wait until so many deliveries have a status."""
        client = self.person.service.organization.client
        query = {"webhook": self.endpoint, "status": status}

        def found() -> bool:
            return len(client.get("/v1/deliveries", params=query, headers=self.key).json()["data"]) == count

        eventually(found, f"{count} deliveries are {status}")
