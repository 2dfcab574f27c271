"""``hookwright status``: components, projects, endpoints and backlog, and what to do next. ``hookwright metrics``."""

import re
import time
from typing import Annotated, Any

import typer

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.deadline import DEADLINE
from hookwright_cli.terminal.columns import STYLES, Column, field
from hookwright_cli.terminal.screen import Screen
from hookwright_cli.verbs import Invocation

_STATES = ("active", "suspended", "pending", "failing", "error")
_SHOWN = 20
_NEXT_OF_REASON = {
    "ProjectNotFound": "kubectl get hwproj -n {namespace}",
    "SecretNotFound": "kubectl describe hwep {name} -n {namespace}",
    "SecretConflict": "kubectl get secret {name}-signing -n {namespace} -o yaml",
    "SigningSecretInvalid": "kubectl describe hwep {name} -n {namespace}",
    "AddressRefused": "hookwright endpoints edit {name}{scope} --to URL",
    "InsecureUrl": "hookwright endpoints edit {name}{scope} --to https://…",
}
"""The next command for each reason of ``Ready=False``; docs/troubleshooting.md explains the reasons."""


def problems_of(overview: dict[str, Any]) -> list[dict[str, str]]:
    """Return the problems: of each the object, the reason, and the next command."""
    installation = overview.get("installation", "")
    found = []
    for one in overview["components"]:
        if one["state"] in {"ready", "unknown"}:
            continue
        name = one.get("deployment", one["name"])
        described = {
            "missing": "kubectl get deployments -A -l app.kubernetes.io/part-of=hookwright; "
            "name its namespace with --installation",
            "stopped": f"kubectl scale -n {installation} deploy/{name} --replicas=1",
        }
        command = described.get(one["state"], f"kubectl logs -n {installation} deploy/{name} --tail=20")
        reason = (
            one.get("message") or f"{one['state']}: {one.get('ready', 0)} of {one.get('wanted', '?')} pods are ready"
        )
        found.append({"object": name, "reason": reason, "next": command})
    for project in overview["projects"]:
        if project.get("ready") is False:
            place = project["namespace"]
            verb = f"describe hwproj {project['name']}" if project["exists"] else "get hwproj"
            found.append(
                {
                    "object": f"project {place}/{project['name']}",
                    "reason": project["message"],
                    "next": f"kubectl {verb} -n {place}",
                }
            )
        found += [_problem(one) for one in project["endpoints"] if one["status"] in {"failing", "error"}]
    return found


def _problem(endpoint: dict[str, Any]) -> dict[str, str]:
    namespace = endpoint.get("namespace", "")
    scope = f" -n {namespace}" if namespace else ""
    name = endpoint["id"]
    conditions = {one["type"]: one for one in endpoint.get("conditions") or ()}
    wanted = conditions.get("Ready" if endpoint["status"] == "error" else "Reachable", {})
    command = f"hookwright deliveries {name}{scope} --state failed"
    if endpoint["status"] == "failing":
        failed = (endpoint.get("deliveries") or {}).get("failed", 0)
        command = f"hookwright deliveries {name}{scope}" + (" --state failed" if failed else "")
    elif namespace:
        template = _NEXT_OF_REASON.get(wanted.get("reason", ""), "kubectl describe hwep {name} -n {namespace}")
        command = template.format(name=name, namespace=namespace, scope=scope)
    else:
        command = f"hookwright endpoints get {name}"
    place = f"{namespace}/{name}" if namespace else name
    reason = f"{wanted.get('reason', endpoint['status'])}: {wanted.get('message', '')}".rstrip(": ")
    return {"object": f"endpoint {place}", "reason": reason, "next": command}


def screen_of(overview: dict[str, Any], problems: list[dict[str, str]], screen: Screen, way: str) -> str:
    """Return the state for people; ``way`` is that of the command, in words."""
    endpoints = [one for project in overview["projects"] for one in project["endpoints"]]
    counts = {state: sum(one["status"] == state for one in endpoints) for state in _STATES}
    states = ", ".join(f"{number} {screen.style(state, STYLES[state])}" for state, number in counts.items() if number)
    verdict = (
        screen.style("well", "bold green") if not problems else screen.style(f"{len(problems)} problems", "bold red")
    )
    if len(problems) == 1:
        verdict = screen.style("1 problem", "bold red")
    pairs = [("Hookwright", verdict), ("Way", way)]
    for one in overview["components"]:
        pods = f", {one['ready']} of {one['wanted']} pods" if "wanted" in one else ""
        restarts = f", {one['restarts']} restarts" if one.get("restarts") else ""
        image = f", {one['image']}" if one.get("image") else ""
        said = f" ({one['message']})" if one.get("message") and "wanted" not in one else ""
        state = screen.style(one["state"], STYLES.get(one["state"], ""))
        pairs.append(
            (one["name"].capitalize() if one["name"] != "api" else "API", f"{state}{pods}{restarts}{image}{said}")
        )
    pairs.append(("Projects", str(sum(project.get("exists", True) for project in overview["projects"]))))
    pairs.append(("Endpoints", f"{len(endpoints)}" + (f": {states}" if states else "")))
    pairs.append(backlog_of(overview, endpoints))
    parts = [screen.pairs(pairs)]
    parts += [
        f"{screen.style(one['object'], 'bold')}\n  {one['reason']}\n  next: {one['next']}" for one in problems[:_SHOWN]
    ]
    if len(problems) > _SHOWN:
        parts.append(f"and {len(problems) - _SHOWN} more: hookwright status -o json")
    return "\n\n".join(parts)


def backlog_of(overview: dict[str, Any], endpoints: list[dict[str, Any]]) -> tuple[str, str]:
    """Return a title, and the results of an hour (``/v1``) or the deliveries that wait (kubeconfig)."""
    if overview["way"] == "api":
        totals = [project["last_hour"] for project in overview["projects"]]
        names = ("delivered", "failed", "failed_attempts")
        delivered, failed, failed_attempts = (sum(one[name] for one in totals) for name in names)
        return "Last hour", f"{delivered} delivered, {failed} failed, {failed_attempts} failed attempts"
    waiting = [((one.get("deliveries") or {}).get("pending", 0), one) for one in endpoints]
    retrying = sum(number for number, one in waiting if one["status"] == "failing")
    total = sum(number for number, _ in waiting)
    largest, endpoint = max(waiting, key=lambda pair: pair[0], default=(0, {}))
    most = f", most at {endpoint['namespace']}/{endpoint['id']} ({largest})" if largest else ""
    parts = f"{total - retrying} pending" + (f", {retrying} retrying" if retrying else "")
    return "Backlog", f"{parts}{most}"


def show_status(
    invocation: Invocation,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again until Ctrl-C.")] = False,
) -> None:
    """Show whether Hookwright is well, and the next command for each problem. The exit code is 9 if there is one."""
    if watch:
        DEADLINE.lift()
    while True:
        overview = invocation.way.overview()
        problems = problems_of(overview)
        text = screen_of(overview, problems, invocation.screen, invocation.way_description())
        document = {"well": not problems, "problems": problems, **overview}
        name = "well" if not problems else "\n".join(one["object"] for one in problems)
        if watch and invocation.screen.for_people and invocation.screen.coloured:
            text = f"\x1b[2J\x1b[H{text}"
        invocation.screen.one(document, lambda text=text: text, name=name)  # type: ignore[misc]
        if not watch:
            break
        time.sleep(3.0)
    if problems:
        raise typer.Exit(int(ExitCode.NEGATIVE))


def show_metrics(
    invocation: Invocation,
    patterns: Annotated[list[str] | None, typer.Argument(metavar="PATTERN...", help="Regular expressions.")] = None,
) -> None:
    """Show for each pod whether it is ready, and its metrics: those whose line matches a PATTERN, or all."""
    from hookwright_cli.ways.cluster_overview import pod_metrics

    try:
        wanted = re.compile("|".join(patterns or ()))
    except re.error as error:
        raise CommandError(f"PATTERN is not a regular expression: {error}", ExitCode.USAGE) from None
    way = invocation.cluster_way("metrics")
    pods = list(pod_metrics(way.cluster, way.installation))
    if not pods:
        raise CommandError(
            f"no pod of Hookwright in namespace {way.installation}",
            ExitCode.NOT_FOUND,
            hint="--installation names another namespace",
        )
    for pod in pods:
        pod["metrics"] = [line for line in pod["metrics"] if wanted.search(line)]
    if not invocation.screen.for_people:
        invocation.screen.rows(pods, (Column("POD", field("id")),), none="")
        return
    for pod in pods:
        invocation.screen.line(f"# {pod['id']}: {'ready' if pod['ready'] else pod['message']}")
        for line in pod["metrics"]:
            invocation.screen.line(line)
