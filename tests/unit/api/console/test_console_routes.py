"""The list of the console's pages and actions, compared with the operations of `/v1`."""

import inspect
import re
from collections.abc import Iterator
from typing import get_args

import pytest
from fastapi import FastAPI
from starlette.requests import Request

from hookwright_api.app import assemble
from hookwright_api.console.form_fields import Form, faults_of, fields_of
from hookwright_api.console.navigation import own_path
from hookwright_api.console.page_route import ConsoleRoute
from hookwright_api.console.routes import ROUTES
from hookwright_api.console.routes.deliveries import latest_failure
from hookwright_api.console.routes.keys import SCOPES
from hookwright_api.console.routes.replays import STATES
from hookwright_api.console.static_files import FOLDER, URL_BY_NAME
from hookwright_api.console.visit import Operation, Visit
from hookwright_api.console.words import delivery_word, pending_title
from hookwright_api.http.request_checks import GuardedRoute
from hookwright_api.routes import routers
from hookwright_api.routes.webhook_secrets import get_secret
from hookwright_api.routes.webhooks import delete_webhook, list_webhooks
from hookwright_api.settings import ApiSettings
from hookwright_crds.documents.project_bodies import ProjectRequest
from hookwright_crds.documents.replay_bodies import ReplayedState
from hookwright_crds.keys import KeyScope
from hookwright_runtime.problems import FieldFault, ProblemError, invalid


def operations() -> dict[Operation, GuardedRoute]:
    """Return the route of each function of `/v1`."""
    every = [route for router in routers() for route in router.routes]
    return {inspect.unwrap(route.endpoint): route for route in every if isinstance(route, GuardedRoute)}


def named(route: ConsoleRoute) -> str:
    """Return the name of a route for messages."""
    return f"{route.method} {route.path}"


def uses(method: str) -> Iterator[tuple[ConsoleRoute, Operation]]:
    """Yield each operation that a route of a method uses."""
    for route in ROUTES:
        if route.method == method:
            yield from ((route, operation) for operation in route.uses)


def test_the_console_has_no_action_that_v1_does_not_have() -> None:
    """Every action calls functions of `/v1`; every page only functions that read, and none that reads a secret."""
    operations_by_name = operations()
    for route in ROUTES:
        assert route.method in ("GET", "POST")
        assert set(route.uses) <= operations_by_name.keys(), named(route)
        if route.method == "POST":
            assert route.uses, named(route)
    for route, operation in uses("GET"):
        assert operations_by_name[operation].methods == {"GET"}, named(route)
        assert operation is not get_secret, named(route)


def test_the_console_has_every_change_that_a_session_may_make_with_v1() -> None:
    """Only operations that an API key alone may call, and those of consumers, are missing."""
    result = {operation for _, operation in uses("POST")}
    changes = {
        route.operation_id
        for operation, route in operations().items()
        if route.methods != {"GET"} and operation not in result and (route.permission.role or route.permission.open)
    }
    assert changes == {"ackMessages", "nackMessages"}


def test_an_action_needs_at_least_the_permission_of_each_of_its_operations() -> None:
    """A stranger to the permission sees neither the page nor its effect."""
    operations_by_name = operations()
    for route, operation in uses("POST"):
        need = operations_by_name[operation].permission.role
        if need is not None and operation is route.uses[0]:
            assert route.permission.role is not None, named(route)
            assert route.permission.role.includes(need), named(route)


async def test_an_operation_that_a_route_does_not_declare_cannot_be_called() -> None:
    """So the compared lists are complete."""
    scope = {"type": "http", "path": "/console/x", "headers": [], "query_string": b"", "server": ("api", 80)}
    with pytest.raises(RuntimeError, match=r"/console/x calls delete_webhook, which `uses` does not name"):
        await Visit(Request(scope), (list_webhooks,)).call(delete_webhook, "wh-1")


@pytest.fixture
def off() -> FastAPI:
    """Return the application without the console."""
    return assemble(ApiSettings(console=False))


def test_without_the_console_there_is_no_route_of_it(off: FastAPI) -> None:
    """Not even a file."""
    assert [route for route in off.routes if "/console" in getattr(route, "path", "")] == []
    with_it = [getattr(route, "path", "") for route in assemble(ApiSettings()).routes]
    assert len([path for path in with_it if path.startswith("/console")]) > 20


def test_templates_have_no_inline_script_or_style_and_escape_everything() -> None:
    """The policy of the pages would refuse them."""
    templates = sorted((FOLDER.parent / "templates").glob("*.html"))
    assert len(templates) > 15
    for template in templates:
        text = template.read_text()
        assert "|safe" not in text.replace(" ", ""), template.name
        assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son[a-z]+=|hx-on|javascript:", text), template.name
        for form in re.findall(r'<form[^>]*method="post"[^>]*>.{0,40}', text):
            assert "form_token()" in form, template.name


def test_the_bounds_of_fields_are_those_of_the_requests() -> None:
    """No template has a bound of its own, and those of the schema are attributes of HTML."""
    for template in (FOLDER.parent / "templates").glob("*.html"):
        assert not re.search(r'\b(min|max|minlength|maxlength)="[0-9]', template.read_text()), template.name
    assert fields_of(ProjectRequest)["display_name"].bounds == {"minlength": 1, "maxlength": 253}


def test_the_url_of_a_file_changes_with_its_content() -> None:
    """So browsers may keep it for ever."""
    assert {"console.css", "console.js", "htmx.min.js", "mark.svg"} <= URL_BY_NAME.keys()
    assert re.fullmatch(r"/console/static/console-[0-9a-f]{12}\.css", URL_BY_NAME["console.css"])


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("/console/projects/billing?q=a", "/console/projects/billing?q=a"),
        ("", "/console/"),
        ("https://evil.example/console/", "/console/"),
        ("//evil.example/console/", "/console/"),
        ("/console/\\evil", "/console/"),
        ("/v1/auth/me", "/console/"),
        ("/console//x\n", "/console/"),
        ("/console/a\r\nb", "/console/"),
        ("/consoles", "/console/"),
        ("//[", "/console/"),
    ],
)
def test_a_login_leads_only_to_pages_of_the_console(written: str, path: str) -> None:
    """Anything else leads to the first page."""
    assert own_path(written) == path


def test_a_text_area_of_pairs_names_the_wrong_line() -> None:
    """Each line is a pair; an empty one is ignored."""
    assert Form.of(b"headers=X-Team: billing%0D%0A%0D%0AX-B:c").pairs("headers") == {
        "X-Team": "billing",
        "X-B": "c",
    }
    for line in ("X-Team", ": value", "A: 1\nA: 2"):
        with pytest.raises(ProblemError) as error:
            Form({"headers": [line]}).pairs("headers")
        assert error.value.errors[0].message.startswith("line ")
    with pytest.raises(ProblemError, match="cannot be read"):
        Form.of(b"a=%ff")


def test_faults_are_grouped_by_the_field_of_the_form() -> None:
    """A fault of an entry belongs to the field that has it; a field of an object has its own."""
    faults = [("headers.X-Team", "is bad"), ("headers", "is bad"), ("events[3]", "x"), ("pull.lease", "is long")]
    problem = invalid(*(FieldFault(field, message) for field, message in faults))
    assert faults_of(problem, ["pull.lease"]) == {"headers": "is bad", "events": "x", "pull.lease": "is long"}
    assert faults_of(None) == {}


def test_the_reason_of_a_failing_endpoint_leads_to_the_latest_failed_attempt() -> None:
    """A delivery that was never tried, or whose last attempt succeeded, is not the cause."""

    def delivery(name: str, *attempts: tuple[str, int | None]) -> dict[str, object]:
        return {"id": name, "attempts": [{"started_at": at, "statusCode": code} for at, code in attempts]}

    deliveries = [
        delivery("untried"),
        delivery("early", ("2026-01-31T12:00:00.000Z", 500)),
        delivery("late", ("2026-01-31T11:00:00.000Z", 500), ("2026-01-31T12:00:01.000Z", None)),
        delivery("good", ("2026-01-31T12:00:02.000Z", 204)),
    ]
    assert latest_failure(deliveries) == ["late"]
    assert latest_failure(deliveries[:1]) == []


def test_pending_deliveries_of_a_failing_endpoint_are_being_retried() -> None:
    """The word names the outage."""
    assert [pending_title(status) for status in ("failing", "active")] == ["Retrying", "Pending"]


def test_a_pending_delivery_is_being_retried_after_a_failed_attempt() -> None:
    """The number of the endpoint's page and the rows behind it have one word."""
    failure, success = {"statusCode": 500}, {"statusCode": 204}
    titles = [
        delivery_word({"status": state, "attempts": attempts}).title
        for state, attempts in [
            ("pending", []),
            ("pending", [success, failure]),
            ("pending", [failure, success]),
            ("failed", [failure]),
        ]
    ]
    assert titles == ["Pending", "Retrying", "Pending", "Failed"]
    assert delivery_word({"status": "pending", "attempts": [{"statusCode": None}]}, is_pulled=True).title == "Retrying"


@pytest.mark.parametrize("headers", [[], [(b"hx-request", b"true")]])
def test_a_path_with_any_letters_leads_to_its_page(headers: list[tuple[bytes, bytes]]) -> None:
    """The path after a login comes from a link, and a header has only ASCII characters."""
    request = Request({"type": "http", "query_string": b"", "headers": headers})
    answer = Visit(request).see(own_path("/console/projects/\u2603?q=a%20b"))
    target = answer.headers["hx-redirect" if headers else "location"]
    assert target == "/console/projects/%E2%98%83?q=a%20b"


def test_forms_have_every_scope_of_a_key_and_every_selection_of_a_replay() -> None:
    """A scope without a box could be given by /v1 only; a replay without words could not be listed."""
    assert set(SCOPES) == set(KeyScope)
    assert set(STATES) == set(get_args(ReplayedState))
