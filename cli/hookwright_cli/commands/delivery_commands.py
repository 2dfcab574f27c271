"""The delivery log, retries and replays: ``deliveries``, ``delivery``, ``retry``, ``replay``, ``replays``, ``test``."""

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookwright_cli import live_names
from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.commands.endpoint_commands import Name, Watch
from hookwright_cli.deadline import DEADLINE
from hookwright_cli.durations import moment
from hookwright_cli.terminal.columns import ATTEMPTS, DELIVERIES, REPLAYS, STYLES, shown
from hookwright_cli.terminal.screen import Screen, plain
from hookwright_cli.verbs import Invocation

if TYPE_CHECKING:
    from hookwright_cli.way_choice import Way

Since = Annotated[str, typer.Option("--since", metavar="2h|TIME", help="A duration before now, or a time.")]
Until = Annotated[str, typer.Option("--until", metavar="1h|TIME", help="A duration before now, or a time.")]
Delivery = Annotated[str, typer.Argument(metavar="DELIVERY", autocompletion=live_names.delivery_ids)]
Types = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="TYPE", help="Event type; repeat it.", autocompletion=live_names.type_names),
]


def list_deliveries(
    invocation: Invocation,
    endpoint: Annotated[
        str, typer.Argument(metavar="ENDPOINT", autocompletion=live_names.endpoint_names, help="All, if left out.")
    ] = "",
    state: Annotated[
        str, typer.Option("--state", metavar="pending|delivered|failed|discarded", help="State of the delivery.")
    ] = "",
    kind: Annotated[
        str, typer.Option("--type", metavar="TYPE", autocompletion=live_names.type_names, help="Event type.")
    ] = "",
    message: Annotated[str, typer.Option("--message", metavar="ID", help="messageId of the event.")] = "",
    event: Annotated[str, typer.Option("--event", metavar="ID", help="Id of the event (webhook-id).")] = "",
    status_code: Annotated[str, typer.Option("--status-code", metavar="N", help="Of the latest attempt.")] = "",
    since: Since = "",
    until: Until = "",
    limit: Annotated[int, typer.Option("--limit", "-l", min=1, help="Most deliveries.")] = 50,
    watch: Watch = False,
) -> None:
    """Show the delivery log, the newest first."""
    now = datetime.now(UTC)
    conditions = {
        "webhook": endpoint,
        "status": state,
        "type": kind,
        "message_id": message,
        "event_id": event,
        "status_code": status_code,
        "since": moment(since, "--since", now) if since else "",
        "until": moment(until, "--until", now) if until else "",
    }
    chosen = {name: value for name, value in conditions.items() if value}
    if watch:
        invocation.screen.watch(lambda: list(invocation.way.deliveries(chosen, limit)), DELIVERIES)
    invocation.screen.rows(
        invocation.way.deliveries(chosen, limit), DELIVERIES, none=invocation.none_of("such deliveries")
    )


def get_delivery(invocation: Invocation, delivery: Delivery) -> None:
    """Show a delivery: the request, and each attempt with its answer."""
    document = invocation.way.call("GET", "deliveries", delivery)
    invocation.screen.one(document, lambda: described(invocation.screen, document))


def described(screen: Screen, document: dict[str, Any]) -> str:
    """Return a delivery for people."""
    state = str(document["status"])
    request = document.get("request") or {}
    pairs = [
        ("Delivery", str(document["id"])),
        ("Event", str(document["event_id"])),
        ("Type", str(document["type"])),
        ("Endpoint", str(document.get("webhook", "-"))),
        (
            "State",
            screen.style(state, STYLES.get(state, "")) + (f" ({document['reason']})" if document.get("reason") else ""),
        ),
        ("Accepted", str(document["accepted_at"])),
        ("Next attempt", shown(document.get("next_attempt_at"))),
    ]
    parts = [screen.pairs(pairs)]
    if request:
        url = request.get("url")
        parts.append(screen.style(f"{request.get('method')} {url}" if url else "pulled by a consumer", "bold"))
        attempts = document.get("attempts") or [{}]
        headers = attempts[-1].get("request_headers") or {}
        parts.append(plain("\n".join(f"{name}: {value}" for name, value in headers.items())))
        parts.append(plain(_body(request.get("body"))))
    if document.get("attempts"):
        parts.append(screen.table(document["attempts"], ATTEMPTS))
    return "\n\n".join(part for part in parts if part)


def _body(body: str | None) -> str:
    try:
        return json.dumps(json.loads(body or ""), indent=2, ensure_ascii=False)
    except ValueError:
        return body or "(the body is no longer stored)"


def retry_delivery(
    invocation: Invocation,
    deliveries: Annotated[list[str], typer.Argument(metavar="DELIVERY...", autocompletion=live_names.delivery_ids)],
) -> None:
    """Send deliveries again. A pending delivery is tried now."""
    results = []
    with invocation.screen.progress("retrying", len(deliveries)) as report:
        for number, delivery in enumerate(deliveries, 1):
            results.append(invocation.way.call("POST", "deliveries", delivery, "retry"))
            report(number)
    if not invocation.screen.for_people:
        invocation.screen.rows(results, DELIVERIES, none="")
        return
    for one in results:
        invocation.screen.line(f"delivery {one['id']} is {one['status']}")


def begin_replay(
    invocation: Invocation,
    endpoint: Name,
    since: Since,
    until: Until = "",
    state: Annotated[
        str, typer.Option("--state", metavar="failed|delivered|all", help="State of the deliveries.")
    ] = "failed",
    kind: Types = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the deliveries.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the replay ends.")] = True,
) -> None:
    """Send the deliveries of a time range again, by default those that failed."""
    now = datetime.now(UTC)
    body: dict[str, Any] = {"since": moment(since, "--since", now), "state": state}
    if until:
        body["until"] = moment(until, "--until", now)
    if kind:
        body["types"] = kind
    if dry_run:
        counted = invocation.way.call_endpoint("POST", endpoint, "replays", body={**body, "dry_run": True})
        least = "" if counted.get("total_is_exact", True) else "at least "
        invocation.screen.one(counted, lambda: f"{least}{counted['total']} deliveries would be sent again")
        return
    replay = invocation.way.call_endpoint("POST", endpoint, "replays", body=body)
    if wait:
        replay = _follow(invocation, endpoint, replay)
    invocation.screen.one(
        replay,
        lambda: f"replay {replay['id']} of {endpoint} {replay['status']}: {replay['done']} of {replay['total']} sent",
    )


def _follow(invocation: Invocation, endpoint: str, replay: dict[str, Any]) -> dict[str, Any]:
    """Return the replay when it has ended. Ctrl-C ends the wait; the replay goes on."""
    pause = 0.2
    DEADLINE.lift()
    try:
        with invocation.screen.progress(f"replaying {endpoint}", replay.get("total")) as report:
            while replay["status"] == "running":
                time.sleep(pause)
                pause = min(pause * 1.5, 3.0)
                replay = patiently(invocation.way, endpoint, str(replay["id"]))
                report(replay["done"])
    except KeyboardInterrupt:
        invocation.screen.note(
            f"the replay goes on; cancel it with: hookwright replays {endpoint}{invocation.options.scope} "
            f"--cancel {replay['id']}"
        )
        raise
    return replay


def patiently(way: "Way", endpoint: str, replay: str) -> dict[str, Any]:
    """Return a replay; wait if the service asks for it."""
    while True:
        try:
            return dict(way.call_endpoint("GET", endpoint, "replays", replay))
        except CommandError as error:
            if error.retry_after is None:
                raise
            time.sleep(error.retry_after)


def list_replays(
    invocation: Invocation,
    endpoint: Name,
    cancel: Annotated[str, typer.Option("--cancel", metavar="REPLAY", help="Cancel this running replay.")] = "",
) -> None:
    """List the latest replays of an endpoint, or cancel one."""
    if cancel:
        invocation.way.call_endpoint("DELETE", endpoint, "replays", cancel)
        invocation.screen.one({"id": cancel, "status": "cancelled"}, lambda: f"replay {cancel} cancelled")
        return
    replays = invocation.way.call_endpoint("GET", endpoint, "replays")["data"]
    invocation.screen.rows(replays, REPLAYS, none="There are no replays.")


def send_test(
    invocation: Invocation,
    endpoint: Name,
    kind: Annotated[
        str, typer.Option("--type", metavar="TYPE", autocompletion=live_names.type_names, help="Event type.")
    ] = "",
    payload: Annotated[str, typer.Option("--payload", metavar="JSON", help="Fields of the test event.")] = "",
) -> None:
    """Send one signed test event, without retries. The exit code is 9 if the receiver does not answer 2xx."""
    body: dict[str, Any] = {"type": kind} if kind else {}
    if payload:
        try:
            body["payload"] = json.loads(payload)
        except ValueError as error:
            raise CommandError(f"--payload is not JSON: {error}", ExitCode.USAGE) from None
    answer = invocation.way.call_endpoint("POST", endpoint, "test", body=body or None)
    said = answer.get("error") or f"HTTP {answer['statusCode']}"
    word = "delivered" if answer["success"] else "failed"
    invocation.screen.one(
        answer,
        lambda: f"test of {endpoint} {invocation.screen.style(word, STYLES[word])}: {said}",
        name=str(answer.get("delivery_id", "")),
    )
    if not answer["success"]:
        raise typer.Exit(int(ExitCode.NEGATIVE))
