"""Parts of the command line that need no service: times, tables, signatures, contexts, and copies of the contract."""

import base64
import hashlib
import hmac
import json
import re
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import pytest
import typer
import yaml
from rich.style import Style
from typer.testing import CliRunner

from hookwright_cli import contexts
from hookwright_cli.command_errors import CommandError, ExitCode, exit_code_of
from hookwright_cli.command_line import app
from hookwright_cli.commands.credential_commands import signature_checks
from hookwright_cli.commands.delivery_commands import described
from hookwright_cli.commands.status_commands import backlog_of, problems_of, screen_of
from hookwright_cli.commands.store_commands import new_private_file
from hookwright_cli.contexts import Context, Contexts
from hookwright_cli.durations import age, moment
from hookwright_cli.terminal.columns import DELIVERIES, ENDPOINTS, STYLES
from hookwright_cli.terminal.screen import Screen, fitting
from hookwright_cli.verbs import errors_reported
from hookwright_cli.way_choice import WayOptions, chosen, users_namespace_of
from hookwright_cli.ways.resource_forms import key_manifest, new_key, user_manifest
from hookwright_cli.ways.service_way import ServiceWay, refusal
from hookwright_crds.keys import digest, key_id_of
from hookwright_crds.users import UserRole, user_secret
from hookwright_crds.users import users_namespace as contract_namespace

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty folder for the configuration, and no keyring."""
    monkeypatch.setenv("HOOKWRIGHT_CONFIG_FOLDER", str(tmp_path / "hookwright"))
    monkeypatch.setenv("HOOKWRIGHT_KEYRING", "off")
    return tmp_path / "hookwright"


def test_a_key_made_here_is_a_key_of_the_contract() -> None:
    """The service accepts its form, and its digest is that of the contract."""
    key = new_key()
    manifest = key_manifest(key, "billing", {"name": "CI"})
    assert key_id_of(key) == manifest["metadata"]["name"]
    assert digest(key) == manifest["spec"]["digest"]


def test_a_user_written_here_is_a_user_of_the_contract() -> None:
    """Both write the same Secret into the same namespace."""
    theirs = user_secret(
        contract_namespace("system"),
        email="Ada@Example.com",
        organization="acme",
        password_hash="h",
        role=UserRole.EDITOR,
    )
    ours = user_manifest(
        users_namespace_of(WayOptions(installation="system")),
        email="Ada@Example.com",
        organization="acme",
        password_hash="h",
        role="editor",
    )
    assert ours == theirs


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2h", "2026-01-31T10:00:00Z"),
        ("1h30m", "2026-01-31T10:30:00Z"),
        ("2d", "2026-01-29T12:00:00Z"),
        ("2026-01-31T13:00:00+02:00", "2026-01-31T11:00:00Z"),
    ],
)
def test_a_time_is_a_duration_before_now_or_a_time_with_its_zone(written: str, expected: str) -> None:
    """Both become a time in UTC."""
    assert moment(written, "--since", NOW) == expected


@pytest.mark.parametrize("written", ["", "2", "h", "2 h", "yesterday", "2026-01-31T13:00:00", "-2h"])
def test_another_text_is_refused_with_the_correct_forms(written: str) -> None:
    """The message names the option and two correct forms."""
    with pytest.raises(CommandError, match=r"--since .*2h.*2026-01-31T12:00:00Z") as error:
        moment(written, "--since", NOW)
    assert error.value.code is ExitCode.USAGE


def test_an_age_is_short() -> None:
    """It has one number and one unit, as in tables of kubectl."""
    times = ("2026-01-31T11:59:55Z", "2026-01-31T11:30:00Z", "2026-01-31T02:00:00Z", "2026-01-20T12:00:00Z", None)
    assert [age(time, NOW) for time in times] == ["5s", "30m", "10h", "11d", "-"]
    assert age("2026-01-31T12:00:30Z", NOW) == "in 30s"


def test_a_table_without_a_terminal_has_every_character_and_no_colour() -> None:
    """A script or a file gets whole cells."""
    url = "https://example.com/" + "x" * 300
    text = Screen("table").table(
        [{"id": "orders", "status": "failing", "events": ["delivered"], "url": url}], ENDPOINTS
    )
    assert url in text
    assert "\x1b" not in text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_table_on_a_terminal_is_not_wider_than_that(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest cells are cut, and the names in the first column last; ``-o wide`` cuts nothing."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    url = f"https://{'x' * 90}"
    row = {"id": "wh-k3v9q4d1x7n0", "status": "failing", "events": ["delivered"] * 9, "url": url}
    lines = Screen("table").table([row], ENDPOINTS).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[1].startswith("wh-k3v9q4d1x7n0 ")
    assert url in Screen("wide").table([row], ENDPOINTS)
    assert sum(fitting([30, 9, 20, 8, 40, 4], 30)) == 34, "a very narrow terminal keeps six characters of a column"


def test_help_has_whole_sentences_in_three_groups() -> None:
    """No line is cut, and each verb is in one group."""
    page = CliRunner().invoke(app, ["--help"]).stdout
    assert re.findall(r"^(\S.*):$", page, re.MULTILINE)[:3] == ["Every day", "Set-up", "Operators"]
    assert "..." not in page.partition("Every day:")[2]


@pytest.mark.parametrize(
    ("secret", "key"),
    [(f"whsec_{base64.b64encode(b'k' * 24).decode()}", b"k" * 24), ("of another sender", b"of another sender")],
)
def test_signatures_of_both_forms_are_checked(secret: str, key: bytes) -> None:
    """X-Service-Signature uses the whole secret, Standard Webhooks its decoded bytes; one changed byte is invalid."""
    body = b'{"type": "delivered"}'
    signature = base64.b64encode(hmac.new(key, b"msg_1.17." + body, hashlib.sha256).digest()).decode()
    headers = {
        "x-service-signature": hmac.new(secret.encode(), body, hashlib.sha256).hexdigest(),
        "webhook-id": "msg_1",
        "webhook-timestamp": "17",
        "webhook-signature": f"v1,other v1,{signature}",
    }
    assert signature_checks(secret, headers, body) == {"X-Service-Signature": True, "webhook-signature": True}
    assert signature_checks(secret, headers, body + b" ") == {"X-Service-Signature": False, "webhook-signature": False}
    assert signature_checks(secret, {}, body) == {}


def test_an_error_has_the_words_and_the_code_of_the_problem() -> None:
    """Faults of fields are in the text, and the wait is the hint."""
    problem = {
        "detail": "the request is not valid",
        "code": "invalid_request",
        "errors": [{"field": "url", "message": "x"}],
    }
    error = refusal(422, json.dumps(problem).encode(), None, "place")
    assert (str(error), error.problem, error.code) == (
        "the request is not valid\n  url: x",
        "invalid_request",
        ExitCode.INVALID,
    )
    limit_answer = refusal(429, b'{"detail": "too many", "code": "rate_limited"}', "7", "place")
    assert (limit_answer.hint, limit_answer.retry_after, limit_answer.code) == (
        "try again in 7 s",
        7.0,
        ExitCode.UNAVAILABLE,
    )
    assert "place answered 502 without a problem document" in str(refusal(502, b"<html>", None, "place"))
    assert exit_code_of(502) is ExitCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("options", "environ", "kind"),
    [
        (WayOptions(), {}, "kubeconfig"),
        (WayOptions(url="https://h"), {}, "api"),
        (WayOptions(), {"HOOKWRIGHT_API_URL": "https://h", "HOOKWRIGHT_API_KEY": "hw_"}, "api"),
        (WayOptions(), {"HOOKWRIGHT_API_URL": "https://h"}, "kubeconfig"),
        (WayOptions(kube_context="prod"), {"HOOKWRIGHT_API_URL": "h", "HOOKWRIGHT_API_KEY": "hw_"}, "kubeconfig"),
        (WayOptions(way="kubeconfig", context="dev"), {}, "kubeconfig"),
        (WayOptions(context="dev"), {}, "api"),
        (WayOptions(), {"HOOKWRIGHT_CONTEXT": "dev"}, "api"),
        (WayOptions(plugin=True, context="prod"), {"HOOKWRIGHT_CONTEXT": "dev"}, "kubeconfig"),
    ],
)
@pytest.mark.usefixtures("home")
def test_the_way_is_chosen_by_options_then_variables_then_contexts(
    options: WayOptions, environ: dict[str, str], kind: str
) -> None:
    """The order is that of docs/cli.md."""
    contexts.save(Contexts("", {"dev": Context("dev", url="https://dev")}))
    assert chosen(options, environ)[0] == kind


@pytest.mark.usefixtures("home")
def test_the_current_context_counts_and_a_key_alone_replaces_only_its_credential() -> None:
    """The URL stays that of the context."""
    contexts.save(Contexts("dev", {"dev": Context("dev", url="https://dev", project="billing")}))
    kind, context = chosen(WayOptions(), {"HOOKWRIGHT_API_KEY": "hw_"})
    assert (kind, context.url, context.project) == ("api", "https://dev", "billing")


def test_a_credential_without_a_keyring_is_in_a_file_of_the_user(home: Path) -> None:
    """Nobody else can read it, and it is gone after logout."""
    place = Path(contexts.keep("dev", "token"))
    assert place.parent == home
    assert place.stat().st_mode & 0o777 == 0o600
    assert contexts.credential_of("dev") == "token"
    contexts.forget("dev")
    assert contexts.credential_of("dev") == ""
    assert "token" not in place.read_text()


def test_a_broken_configuration_is_an_error_that_names_the_file(home: Path) -> None:
    """No traceback reaches the user."""
    home.mkdir()
    (home / "config.yaml").write_text("contexts: {dev: {colour: red}}")
    with pytest.raises(CommandError, match=r"config\.yaml"):
        contexts.load()


def test_each_problem_has_a_reason_and_a_next_command() -> None:
    """A stopped operator, a missing project and an endpoint that is not ready are problems; a suspended one is not."""
    endpoint = {"id": "orders", "namespace": "acme", "status": "error", "deliveries": {}}
    refusals = {"type": "Ready", "status": "False", "reason": "AddressRefused", "message": "a private address"}
    overview = {
        "way": "kubeconfig",
        "installation": "system",
        "components": [{"name": "operator", "deployment": "op", "state": "stopped", "ready": 0, "wanted": 0}],
        "projects": [
            {
                "namespace": "acme",
                "name": "billing",
                "exists": True,
                "ready": False,
                "message": "too old",
                "endpoints": [{**endpoint, "conditions": [refusals]}, {**endpoint, "status": "suspended"}],
            },
            {
                "namespace": "acme",
                "name": "shop",
                "exists": False,
                "ready": False,
                "message": "missing",
                "endpoints": [],
            },
        ],
    }
    assert problems_of(overview) == [
        {
            "object": "op",
            "reason": "stopped: 0 of 0 pods are ready",
            "next": "kubectl scale -n system deploy/op --replicas=1",
        },
        {
            "object": "project acme/billing",
            "reason": "too old",
            "next": "kubectl describe hwproj billing -n acme",
        },
        {
            "object": "endpoint acme/orders",
            "reason": "AddressRefused: a private address",
            "next": "hookwright endpoints edit orders -n acme --to URL",
        },
        {"object": "project acme/shop", "reason": "missing", "next": "kubectl get hwproj -n acme"},
    ]
    assert re.search(r"Projects: +1\n", screen_of(overview, [], Screen("table"), "way"))


def test_status_shows_failed_attempts_and_retries_before_a_delivery_fails() -> None:
    """An outage is on the screen with its first attempts, by both ways."""
    total = {"delivered": 0, "failed": 0, "failed_attempts": 911}
    through_api = {"way": "api", "projects": [{"last_hour": total}]}
    assert backlog_of(through_api, []) == ("Last hour", "0 delivered, 0 failed, 911 failed attempts")
    endpoints = [
        {"namespace": "acme", "id": "orders", "status": "failing", "deliveries": {"pending": 303}},
        {"namespace": "acme", "id": "audit", "status": "active", "deliveries": {"pending": 2}},
    ]
    expected = ("Backlog", "2 pending, 303 retrying, most at acme/orders (303)")
    assert backlog_of({"way": "kubeconfig"}, endpoints) == expected


ATTACK = "ok\x1b]52;c;Y3VybCBldmls\x07\x1b[2J\x9b8m\u202e\r200"
"""A text of a receiver that writes the clipboard, clears the screen, hides text, and reverses and overwrites a line."""


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml", "name"])
def test_a_receiver_cannot_control_the_terminal_of_a_reader(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its answers reach the terminal with their control characters escaped, and scripts still get them unchanged."""
    attempt = {"number": 1, "started_at": "t", "duration_ms": 1, "statusCode": 500, "error": ATTACK, "response": ATTACK}
    request = {"url": "https://example.com", "body": ATTACK}
    document = {
        "id": "dlv_1", "event_id": ATTACK, "type": ATTACK, "status": "failed", "accepted_at": NOW.isoformat(),
        "request": request, "attempts": [{**attempt, "request_headers": {"X-Tenant": ATTACK}}],
    }  # fmt: skip
    screen = Screen(form)
    screen.one(document, described(screen, document), name=ATTACK)
    screen.rows([{**document, "id": ATTACK}], DELIVERIES, none="")

    output = capsys.readouterr().out
    assert not set(output) & set("\x1b\x07\x9b\r\u202e")
    if form == "json":
        assert json.JSONDecoder().raw_decode(output)[0] == document
    elif form == "yaml":
        assert yaml.safe_load(output[: output.index("data:")]) == document
    else:
        assert "\\u001b" in output


def test_a_refusal_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """The words of a problem document may come from a server that is not Hookwright."""
    with pytest.raises(typer.Exit), errors_reported():
        raise refusal(409, json.dumps({"detail": ATTACK}).encode(), None, "the service")
    assert not set(capsys.readouterr().err) & set("\x1b\x07\x9b\r")


def test_only_the_colours_of_the_table_reach_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cell cannot begin a colour that the table does not end."""
    monkeypatch.setattr(Screen, "coloured", True)
    screen = Screen("table")
    row = {"id": "dlv_1", "status": "failed", "type": "\x1b[31mred\x1b[8m", "attempts": []}
    screen.rows([row], DELIVERIES, none="")
    output = capsys.readouterr().out
    assert "\x1b[31mfailed\x1b[0m" in output
    assert "\\u001b[31mred\\u001b[8m" in output
    for style in {*STYLES.values(), "bold", "bold green", "bold red"}:
        screen.line(screen.style("state", style))
        assert capsys.readouterr().out == f"{Style.parse(style).render('state')}\n", style


def test_a_backup_in_a_shared_folder_is_a_new_file_of_its_owner(tmp_path: Path) -> None:
    """A link that another user has put there does not lead the copy to another file, and no other user can open it."""
    folder, draft = tmp_path / "other", tmp_path / "backup.db.part"
    folder.write_text("precious")
    draft.symlink_to(folder)
    with new_private_file(draft) as target:
        assert draft.stat().st_mode & 0o777 == 0o600
        target.write(b"events")
    assert folder.read_text() == "precious"
    assert draft.read_bytes() == b"events"


@pytest.mark.usefixtures("home")
def test_a_request_of_too_many_deliveries_is_sent_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file reaches a project with many endpoints; each event is sent once, in order."""
    bodies: list[list[str]] = []

    def send(_: ServiceWay, events: list[dict[str, str]]) -> dict[str, object]:
        if len(events) > 3:
            raise CommandError("too many", ExitCode.INVALID, problem="too_many_deliveries", status=422)
        bodies.append([event["id"] for event in events])
        return {"accepted": len(events), "duplicates": 0, "deliveries": 0, "event_ids": bodies[-1]}

    monkeypatch.setattr(ServiceWay, "send", send)
    monkeypatch.setenv("HOOKWRIGHT_API_KEY", "hw_key")
    lines = "".join(json.dumps({"id": f"{number}"}) + "\n" for number in range(10))
    answer = CliRunner().invoke(app, ["send", "-f", "-", "--url=http://127.0.0.1:1", "-o", "name"], input=lines)
    assert answer.output.split() == list(chain(*bodies)) == [f"{number}" for number in range(10)]


@pytest.mark.usefixtures("home")
def test_the_refusal_of_a_part_names_its_own_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was accepted before is not sent again by a user who goes on after the line."""

    def send(_: ServiceWay, events: list[dict[str, str]]) -> dict[str, object]:
        if len(events) > 1:
            raise CommandError("too many", ExitCode.INVALID, problem="too_many_deliveries", status=422)
        if events[0]["id"] == "b":
            raise CommandError("wrong", ExitCode.INVALID, problem="invalid_request", status=422)
        return {"accepted": 1, "duplicates": 0, "deliveries": 0, "event_ids": ["a"]}

    monkeypatch.setattr(ServiceWay, "send", send)
    monkeypatch.setenv("HOOKWRIGHT_API_KEY", "hw_key")
    answer = CliRunner().invoke(
        app, ["send", "-f", "-", "--url=http://127.0.0.1:1"], input='{"id":"a"}\n\n{"id":"b"}\n'
    )
    assert "no event after line 2 was accepted; those before were" in answer.output
