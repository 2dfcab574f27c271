"""``hookwright quickstart``: a project, a key, an endpoint and an event, up to the delivery in the terminal."""

import math
import sys
import time
from collections.abc import Mapping
from contextlib import closing, nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.commands.asking import confirm
from hookwright_cli.commands.listen_command import Listening
from hookwright_cli.contract import EVENT_TYPES
from hookwright_cli.durations import rfc3339
from hookwright_cli.parameters import Yes
from hookwright_cli.verbs import Invocation
from hookwright_cli.way_choice import option

if TYPE_CHECKING:
    from hookwright_cli.way_choice import Way

_NAME = "quickstart"
_MARK = "made by hookwright quickstart"
"""The description of an endpoint that this command made."""
_HOURS = 24
_STARTING_SECONDS = 10.0
"""How long new objects may be unknown to another replica."""
_REMOVE = "Delete what this command made; a project that you named stays."


def quickstart(
    invocation: Invocation,
    remove: Annotated[bool, option("--remove", None, _REMOVE)] = False,
    yes: Yes = False,
) -> None:
    """Make a project, a key and an endpoint, send an event, and show its delivery.

    The project is quickstart, unless you name another one. What exists is used again. The endpoint expires after 24
    hours. The secret of the key is shown only on a terminal.
    """
    # Every endpoint of a project gets the event, so the default is not a project that people use.
    project = invocation.options.project or _NAME
    invocation.options = replace(invocation.options, project=project)
    if remove:
        _remove(invocation, project, yes=yes)
        return
    way, say = invocation.way, invocation.screen.note
    key = ""
    if way.kind == "api" and way.has_key:
        (own,) = way.project_names()
        if project != own:
            message = f"the key is of project {own}, whose endpoints would all get the event"
            raise CommandError(message, ExitCode.USAGE, hint=f"hookwright quickstart -p {own}")
        say(f"key       yours, of project {own}")
    else:
        exists = project in way.project_names()
        if not exists:
            way.create_project(project)
        say(f"project   {project} {'exists' if exists else 'made'}")
        key = _make_key(way, say)
    scope = f"{invocation.options.scope} -p {project}"
    endpoint = _make_endpoint(way, say, scope)
    with closing(way.with_key(key)) if key and way.kind == "api" else nullcontext(way) as sender:
        event = _send(sender)
    say(f"event     {event} accepted; its delivery:")
    Listening(invocation.screen, way, endpoint, math.inf, None).run(lease="60s", wait="5s", last_event=event)
    say(f"log       hookwright deliveries{scope}")
    say(f"next      hookwright listen{scope} --forward http://localhost:3000/hooks")
    needs = "   # needs HOOKWRIGHT_API_KEY" if key and way.kind == "api" else ""
    say(f"send      hookwright send{scope} delivered messageId=m-1{needs}")
    say(f"remove    hookwright quickstart{scope} --remove")


def _make_key(way: "Way", say: Any) -> str:
    """Return the API key to send with, empty if the way can send."""
    ids = [key["id"] for key in way.api_keys() if key["name"] == _NAME]
    if ids:
        say(f"key       {ids[0]} exists; it was shown when it was made")
        if way.kind != "api":
            return ""
    document = way.create_key({"name": _NAME})
    say(f"key       {document['id']} made with the scopes {', '.join(document['scopes'])}")
    if sys.stderr.isatty():
        say(f"          {document['key']}   keep it: it is not shown again")
    else:
        say("          it is shown only on a terminal; `hookwright keys create` makes another one")
    return str(document["key"])


def _make_endpoint(way: "Way", say: Any, scope: str) -> str:
    """Return the id of an endpoint with pull that gets events now."""
    expiry = rfc3339(datetime.now(UTC) + timedelta(hours=_HOURS))
    endpoint = next((endpoint for endpoint in way.endpoints() if _is_ours(endpoint) and endpoint["pull"]), None)
    word = "exists" if endpoint else "made"
    if endpoint:
        way.change_endpoint(endpoint["id"], {"expires_at": expiry})
    else:
        fields = {"pull": {}, "events": ["*"], "description": _MARK, "expires_at": expiry}
        # By /v1 the service chooses the id.
        endpoint = way.create_endpoint("" if way.kind == "api" else f"{_NAME}-{uuid4().hex[:8]}", fields)
    name, deadline = str(endpoint["id"]), time.monotonic() + _STARTING_SECONDS
    while (status := way.endpoint(name)["status"]) == "pending" and time.monotonic() < deadline:
        time.sleep(0.2)
    # An endpoint with pull is failing after a message that nobody acknowledged; it gets events all the same.
    if status not in {"active", "failing"}:
        message = f"endpoint {name} is {status}, so it gets no events"
        raise CommandError(message, ExitCode.CONFLICT, hint=f"hookwright endpoints get {name}{scope}")
    say(f"endpoint  {name} {word}; it takes messages without a URL, until {expiry}")
    return name


def _is_ours(endpoint: Mapping[str, Any]) -> bool:
    return bool(endpoint["description"] == _MARK)


def _send(way: "Way") -> str:
    """Return the id of an accepted event that has a delivery; replicas see new objects after a moment."""
    deadline = time.monotonic() + _STARTING_SECONDS
    while True:
        is_last = time.monotonic() > deadline
        try:
            answer = way.send([{**EVENT_TYPES["delivered"]["example"], "id": f"{_NAME}-{uuid4()}"}])
        except CommandError as error:
            if is_last or error.code not in {ExitCode.NOT_FOUND, ExitCode.FORBIDDEN, ExitCode.UNAVAILABLE}:
                raise
        else:
            if answer["deliveries"] or is_last:
                return str(answer["event_ids"][0])
        time.sleep(0.5)


def _remove(invocation: Invocation, project: str, *, yes: bool) -> None:
    way, say = invocation.way, invocation.screen.note
    if way.kind == "api" and way.has_key:
        raise CommandError(
            "--remove needs a login, because a key deletes no keys", ExitCode.FORBIDDEN, hint="unset HOOKWRIGHT_API_KEY"
        )
    endpoints, keys = way.endpoints(), way.api_keys()
    confirm(f"Delete what this command made in project {project}?", yes=yes)
    for endpoint in filter(_is_ours, endpoints):
        way.delete_endpoint(endpoint["id"])
        say(f"endpoint {endpoint['id']} deleted")
    for key in (key for key in keys if key["name"] == _NAME):
        way.revoke_key(key["id"])
        say(f"key {key['id']} revoked")
    others = [endpoint for endpoint in endpoints if not _is_ours(endpoint)]
    others += [key for key in keys if key["name"] != _NAME]
    if others or project != _NAME:
        say(f"project {project} stays" + (": it has other objects" if others else ""))
        return
    way.delete_project(project)
    say(f"project {project} deleted")
