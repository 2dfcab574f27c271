"""``hookwright status``: components, projects, endpoints and backlog, and what to do next. ``hookwright metrics``."""

import re
import time
from typing import Annotated, Any

import typer

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.deadline import DEADLINE
from hookwright_cli.parameters import argument
from hookwright_cli.terminal.columns import columns
from hookwright_cli.terminal.screen import Screen
from hookwright_cli.verbs import Invocation
from hookwright_cli.way_choice import option

_STATES = ("active", "suspended", "pending", "failing", "error")
_MAX_PROBLEMS = 20
_NEXT_OF_REASON = {
    "ProjectNotFound": "kubectl get hwproj -n {namespace}",
    "SecretNotFound": "kubectl describe hwep {name} -n {namespace}",
    "SecretConflict": "kubectl get secret {name}-signing -n {namespace} -o yaml",
    "SigningSecretInvalid": "kubectl describe hwep {name} -n {namespace}",
    "CredentialsNotFound": "kubectl describe hwep {name} -n {namespace}",
    "CredentialsRefused": "kubectl describe hwep {name} -n {namespace}",
    "SuspendedAfterFailures": "hookwright test {name}{scope}",
    "CredentialsInvalid": "kubectl describe hwep {name} -n {namespace}",
    "AddressRefused": "hookwright endpoints edit {name}{scope} --to URL",
    "InsecureUrl": "hookwright endpoints edit {name}{scope} --to https://…",
}
"""The next command for each reason of ``Ready=False``; docs/troubleshooting.md explains the reasons."""


def problems_of(overview: dict[str, Any]) -> list[dict[str, str]]:
    """Return the problems: of each the object, the reason, and the next command."""
    installation = overview.get("installation", "")
    components = [component for component in overview["components"] if component["state"] not in {"ready", "unknown"}]
    problems = [_component_problem(component, installation) for component in components]
    for project in overview["projects"]:
        if project.get("ready") is False:
            name, place = project["name"], project["namespace"]
            verb = f"describe hwproj {name}" if project["exists"] else "get hwproj"
            problems.append(_problem(f"project {place}/{name}", project["message"], f"kubectl {verb} -n {place}"))
        problems += map(_endpoint_problem, filter(_has_problem, project["endpoints"]))
    return problems


def _problem(name: str, reason: str, command: str) -> dict[str, str]:
    return {"object": name, "reason": reason, "next": command}


def _component_problem(component: dict[str, Any], installation: str) -> dict[str, str]:
    name, state = component.get("deployment", component["name"]), component["state"]
    commands = {
        "missing": "kubectl get deployments -A -l app.kubernetes.io/part-of=hookwright; "
        "name its namespace with --installation",
        "stopped": f"kubectl scale -n {installation} deploy/{name} --replicas=1",
    }
    pods = f"{component.get('ready', 0)} of {component.get('wanted', '?')} pods are ready"
    command = commands.get(state, f"kubectl logs -n {installation} deploy/{name} --tail=20")
    return _problem(name, component.get("message") or f"{state}: {pods}", command)


def _conditions(endpoint: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {condition["type"]: condition for condition in endpoint.get("conditions") or ()}


def _has_problem(endpoint: dict[str, Any]) -> bool:
    is_ready = _conditions(endpoint).get("Ready", {}).get("status") != "False"
    return endpoint["status"] in {"failing", "error"} or (endpoint["status"] == "suspended" and not is_ready)


def _endpoint_problem(endpoint: dict[str, Any]) -> dict[str, str]:
    name, namespace, status = endpoint["id"], endpoint.get("namespace", ""), endpoint["status"]
    scope, place = (f" -n {namespace}", f"{namespace}/{name}") if namespace else ("", name)
    condition = _conditions(endpoint).get("Reachable" if status == "failing" else "Ready", {})
    if status == "failing":
        failures = (endpoint.get("deliveries") or {}).get("failed", 0)
        command = f"hookwright deliveries {name}{scope}" + (" --state failed" if failures else "")
    elif namespace:
        template = _NEXT_OF_REASON.get(condition.get("reason", ""), "kubectl describe hwep {name} -n {namespace}")
        command = template.format(name=name, namespace=namespace, scope=scope)
    else:
        command = f"hookwright endpoints get {name}"
    reason = f"{condition.get('reason', status)}: {condition.get('message', '')}".rstrip(": ")
    return _problem(f"endpoint {place}", reason, command)


def screen_of(overview: dict[str, Any], problems: list[dict[str, str]], screen: Screen, way: str) -> str:
    """Return the state for people; ``way`` is that of the command, in words."""
    endpoints = [endpoint for project in overview["projects"] for endpoint in project["endpoints"]]
    counts = {state: sum(endpoint["status"] == state for endpoint in endpoints) for state in _STATES}
    states = ", ".join(f"{number} {screen.state(state)}" for state, number in counts.items() if number)
    verdict = screen.style("well", "bold green")
    if problems:
        verdict = screen.style(f"{len(problems)} problem{'s' if len(problems) > 1 else ''}", "bold red")
    pairs = [("Hookwright", verdict), ("Way", way), *(_component_pair(item, screen) for item in overview["components"])]
    pairs.append(("Projects", str(sum(project.get("exists", True) for project in overview["projects"]))))
    pairs.append(("Endpoints", f"{len(endpoints)}" + (f": {states}" if states else "")))
    pairs.append(backlog_of(overview, endpoints))
    parts = [screen.pairs(pairs)]
    parts += [
        f"{screen.style(item['object'], 'bold')}\n  {item['reason']}\n  next: {item['next']}"
        for item in problems[:_MAX_PROBLEMS]
    ]
    if len(problems) > _MAX_PROBLEMS:
        parts.append(f"and {len(problems) - _MAX_PROBLEMS} more: hookwright status -o json")
    return "\n\n".join(parts)


def _component_pair(component: dict[str, Any], screen: Screen) -> tuple[str, str]:
    text = screen.state(component["state"])
    if "wanted" in component:
        text += f", {component['ready']} of {component['wanted']} pods"
    text += f", {component['restarts']} restarts" if component.get("restarts") else ""
    text += f", {component['image']}" if component.get("image") else ""
    if component.get("message") and "wanted" not in component:
        text += f" ({component['message']})"
    return "API" if component["name"] == "api" else component["name"].capitalize(), text


def backlog_of(overview: dict[str, Any], endpoints: list[dict[str, Any]]) -> tuple[str, str]:
    """Return a title, and the results of an hour (``/v1``) or the deliveries that wait (kubeconfig)."""
    if overview["way"] == "api":
        totals = [project["last_hour"] for project in overview["projects"]]
        names = ("delivered", "failed", "failed_attempts")
        successes, failures, failed_attempts = (sum(total[name] for total in totals) for name in names)
        return "Last hour", f"{successes} delivered, {failures} failed, {failed_attempts} failed attempts"
    waiting = [((item.get("deliveries") or {}).get("pending", 0), item) for item in endpoints]
    retrying = sum(number for number, item in waiting if item["status"] == "failing")
    total = sum(number for number, _ in waiting)
    largest, endpoint = max(waiting, key=lambda pair: pair[0], default=(0, {}))
    peak = f", most at {endpoint['namespace']}/{endpoint['id']} ({largest})" if largest else ""
    parts = f"{total - retrying} pending" + (f", {retrying} retrying" if retrying else "")
    return "Backlog", f"{parts}{peak}"


def show_status(
    invocation: Invocation, watch: Annotated[bool, option("--watch -w", None, "Show it again until Ctrl-C.")] = False
) -> None:
    """Show whether Hookwright is well, and the next command for each problem. The exit code is 9 if there is one."""
    if watch:
        DEADLINE.lift()
    while True:
        overview = invocation.way.overview()
        problems = problems_of(overview)
        text = screen_of(overview, problems, invocation.screen, invocation.way_description())
        document = {"well": not problems, "problems": problems, **overview}
        name = "well" if not problems else "\n".join(problem["object"] for problem in problems)
        if not watch or not invocation.screen.for_people:
            invocation.screen.one(document, text, name=name)
        else:
            invocation.screen.again(text)
        if not watch:
            break
        time.sleep(3.0)
    if problems:
        raise typer.Exit(int(ExitCode.NEGATIVE))


def show_metrics(
    invocation: Invocation, patterns: Annotated[list[str] | None, argument("PATTERN...", "Regular expressions.")] = None
) -> None:
    """Show for each pod whether it is ready, and its metrics: those whose line matches a PATTERN, or all."""
    from hookwright_cli.ways.cluster_overview import pod_metrics

    try:
        pattern = re.compile("|".join(patterns or ()))
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
        pod["metrics"] = [line for line in pod["metrics"] if pattern.search(line)]
    if not invocation.screen.for_people:
        invocation.screen.rows(pods, columns("POD:id"), none="")
        return
    for pod in pods:
        invocation.screen.line(f"# {pod['id']}: {'ready' if pod['ready'] else pod['message']}")
        for line in pod["metrics"]:
            invocation.screen.line(line)
