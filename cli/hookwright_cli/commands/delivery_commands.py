"""The delivery log, retries and replays: ``deliveries``, ``delivery``, ``retry``, ``replay``, ``replays``, ``test``."""

import json
import time
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.deadline import DEADLINE
from hookwright_cli.durations import moment
from hookwright_cli.parameters import (
    Delivery,
    Endpoint,
    Since,
    Type,
    Types,
    Until,
    Watch,
    argument,
    delivery_ids,
    endpoint_names,
)
from hookwright_cli.terminal.columns import ATTEMPTS, DELIVERIES, REPLAYS, deliveries_text, shown
from hookwright_cli.terminal.event_lines import body_text
from hookwright_cli.terminal.screen import Screen, plain
from hookwright_cli.verbs import Invocation
from hookwright_cli.way_choice import option


def list_deliveries(
    invocation: Invocation,
    endpoint: Annotated[str, argument("ENDPOINT", "All, if left out.", autocompletion=endpoint_names)] = "",
    state: Annotated[str, option("--state", "pending|delivered|failed|discarded", "State of the delivery.")] = "",
    kind: Type = "",
    message: Annotated[str, option("--message", "ID", "messageId of the event.")] = "",
    event: Annotated[str, option("--event", "ID", "Id of the event (webhook-id).")] = "",
    status_code: Annotated[str, option("--status-code", "N", "Of the latest attempt.")] = "",
    since: Since = "",
    until: Until = "",
    limit: Annotated[int, option("--limit -l", "N", "Most deliveries.", min=1)] = 50,
    watch: Watch = False,
) -> None:
    """Show the delivery log, the newest first."""
    conditions = {"webhook": endpoint, "status": state, "type": kind, "message_id": message, "event_id": event}
    filters = {name: value for name, value in {**conditions, "status_code": status_code}.items() if value}
    conditions = {**filters, **_times(since, until)}

    def read() -> list[dict[str, Any]]:
        return list(invocation.way.deliveries(conditions, limit))

    columns = [column for column in DELIVERIES if column.title != "ENDPOINT" or not endpoint]
    if watch:
        invocation.screen.watch(read, columns)
    invocation.screen.rows(read(), columns, none=invocation.none_of("such deliveries"))


def _times(since: str, until: str) -> dict[str, str]:
    """Return the bounds that are given."""
    now = datetime.now(UTC)
    bounds = {"since": since, "until": until}
    return {name: moment(text, f"--{name}", now) for name, text in bounds.items() if text}


def get_delivery(invocation: Invocation, delivery: Delivery) -> None:
    """Show a delivery: the request, and each attempt with its answer."""
    document = invocation.way.call("GET", "deliveries", delivery)
    invocation.screen.one(document, described(invocation.screen, document))


def described(screen: Screen, document: dict[str, Any]) -> str:
    """Return a delivery for people."""
    reason = f" ({document['reason']})" if document.get("reason") else ""
    pairs = [
        ("Delivery", str(document["id"])),
        ("Message", shown(document.get("message_id"))),
        ("Recipient", shown(document.get("recipient"))),
        ("Event", str(document["event_id"])),
        ("Type", str(document["type"])),
        ("Endpoint", str(document.get("webhook", "-"))),
        ("State", screen.state(str(document["status"])) + reason),
        ("Accepted", str(document["accepted_at"])),
        ("Next attempt", shown(document.get("next_attempt_at"))),
    ]
    parts = [screen.pairs(pairs)]
    if request := document.get("request"):
        url = request.get("url")
        parts.append(screen.style(f"{request.get('method')} {url}" if url else "pulled by a consumer", "bold"))
        attempts = document.get("attempts") or [{}]
        headers = attempts[-1].get("request_headers") or {}
        parts.append(plain("\n".join(f"{name}: {value}" for name, value in headers.items())))
        parts.append(plain(body_text(request.get("body") or "(the body is no longer stored)")))
    if document.get("attempts"):
        parts.append(screen.table(document["attempts"], ATTEMPTS))
    return "\n\n".join(part for part in parts if part)


def retry_delivery(
    invocation: Invocation, deliveries: Annotated[list[str], argument("DELIVERY...", autocompletion=delivery_ids)]
) -> None:
    """Send deliveries again. A pending delivery is tried now."""
    results: list[dict[str, Any]] = []
    with invocation.screen.progress("retrying", len(deliveries)) as report:
        for delivery_id in deliveries:
            results.append(invocation.way.call("POST", "deliveries", delivery_id, "retry"))
            report(len(results))
    if not invocation.screen.for_people:
        invocation.screen.rows(results, DELIVERIES, none="")
        return
    for delivery in results:
        invocation.screen.line(f"delivery {delivery['id']} is {delivery['status']}")


def begin_replay(
    invocation: Invocation,
    endpoint: Endpoint,
    since: Since,
    until: Until = "",
    state: Annotated[str, option("--state", "failed|delivered|all", "State of the deliveries.")] = "failed",
    kind: Types = None,
    dry_run: Annotated[bool, option("--dry-run", None, "Only count the deliveries.")] = False,
    wait: Annotated[bool, option("--wait/--no-wait", None, "Wait until the replay ends.")] = True,
) -> None:
    """Send the deliveries of a time range again, by default those that failed."""
    body = {**_times(since, until), "state": state, **({"types": kind} if kind else {})}
    if dry_run:
        selection = invocation.way.call_endpoint("POST", endpoint, "replays", body={**body, "dry_run": True})
        prefix = "" if selection.get("total_is_exact", True) else "at least "
        invocation.screen.one(selection, f"{prefix}{deliveries_text(selection['total'])} would be sent again")
        return
    replay = invocation.way.call_endpoint("POST", endpoint, "replays", body=body)
    if wait:
        replay = _follow(invocation, endpoint, replay)
    invocation.screen.one(
        replay,
        f"replay {replay['id']} of {endpoint} {replay['status']}: {replay['done']} of {replay['total']} sent",
    )


def _follow(invocation: Invocation, endpoint: str, replay: dict[str, Any]) -> dict[str, Any]:
    """Return the replay when it has ended. Ctrl-C ends the wait; the replay goes on."""
    name, pause = str(replay["id"]), 0.2
    DEADLINE.lift()
    try:
        with invocation.screen.progress(f"replaying {endpoint}", replay.get("total")) as report:
            while replay["status"] == "running":
                time.sleep(pause)
                pause = min(pause * 1.5, 3.0)
                try:
                    replay = invocation.way.call_endpoint("GET", endpoint, "replays", name)
                except CommandError as error:
                    if error.retry_after is None:
                        raise
                    pause = error.retry_after
                report(replay["done"])
    except KeyboardInterrupt:
        invocation.screen.note(
            f"the replay goes on; cancel it with: hookwright replays {endpoint}{invocation.options.scope} "
            f"--cancel {name}"
        )
        raise
    return replay


def list_replays(
    invocation: Invocation,
    endpoint: Endpoint,
    cancel: Annotated[str, option("--cancel", "REPLAY", "Cancel this running replay.")] = "",
) -> None:
    """List the latest replays of an endpoint, or cancel one."""
    if cancel:
        invocation.way.call_endpoint("DELETE", endpoint, "replays", cancel)
        invocation.screen.one({"id": cancel, "status": "cancelled"}, f"replay {cancel} cancelled")
        return
    replays = invocation.way.call_endpoint("GET", endpoint, "replays")["data"]
    invocation.screen.rows(replays, REPLAYS, none="There are no replays.")


def send_test(
    invocation: Invocation,
    endpoint: Endpoint,
    kind: Type = "",
    payload: Annotated[str, option("--payload", "JSON", "Fields of the test event.")] = "",
) -> None:
    """Send one signed test event, without retries. The exit code is 9 if the receiver does not answer 2xx."""
    body: dict[str, Any] = {"type": kind} if kind else {}
    if payload:
        try:
            body["payload"] = json.loads(payload)
        except ValueError as error:
            raise CommandError(f"--payload is not JSON: {error}", ExitCode.USAGE) from None
    answer = invocation.way.call_endpoint("POST", endpoint, "test", body=body or None)
    result = answer.get("error") or f"HTTP {answer['statusCode']}"
    word = "delivered" if answer["success"] else "failed"
    invocation.screen.one(
        answer,
        f"test of {endpoint} {invocation.screen.state(word)}: {result}",
        name=str(answer.get("delivery_id", "")),
    )
    if not answer["success"]:
        raise typer.Exit(int(ExitCode.NEGATIVE))
