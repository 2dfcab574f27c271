"""After a busy session no secret is in logs, metrics, Events or the output of kubectl describe."""

import json

import httpx
import pytest
from support.busy_operator import Session
from support.json_lines import complete_lines, entries

from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE


def _told(session: Session) -> dict[str, str]:
    kubectl, namespace = session.cluster.kubectl, session.namespace
    return {
        "operator's log": session.operator.log.read_text(),
        "API's log": session.api.log.read_text(),
        "operator's metrics": httpx.get(f"{session.operator.health_url}/metrics", trust_env=False, timeout=30.0).text,
        "API's metrics": httpx.get(f"{session.api.health_url}/metrics", trust_env=False, timeout=30.0).text,
        "Events": kubectl("get", "events", "-n", namespace, "-o", "yaml").stdout,
        "Events of the installation": kubectl("get", "events", "-n", SYSTEM_NAMESPACE, "-o", "yaml").stdout,
        "description": kubectl("describe", "hookwright", "-n", namespace).stdout,
        "description of Secrets": kubectl("describe", "secrets", "-n", namespace).stdout,
    }


def test_no_secret_is_told_anywhere(session: Session) -> None:
    """No signing secret, API key, token, password, session key or password hash appears, old or new, valid or not."""
    told = _told(session)
    assert all(told[where] for where in told if where != "Events of the installation")
    assert len(session.secrets) >= 12
    for what, secret in session.secrets.items():
        assert len(secret) >= 16, what
        # The spec of an endpoint has the static header, so its description shows it; docs/security.md says so.
        shown = {"description"} if what == "static header" else set()
        leaks = [where for where, text in told.items() if secret in text and where not in shown]
        assert not leaks, f"{what} is in {leaks}"


def test_the_search_would_find_a_secret(session: Session) -> None:
    """The same search finds values that are not secret."""
    told = _told(session)
    assert "sender-key" in told["Events"]
    assert "orphan" in told["description"]
    assert "delivery failed" in told["operator's log"]


def test_a_delivery_that_is_given_up_is_one_line_of_the_log(session: Session) -> None:
    """The line names the delivery, its endpoint, and the error."""
    (line,) = [line for line in entries(session.operator.log) if line["event"] == "delivery failed"]
    assert line["delivery"].startswith("dlv_")
    assert (line["namespace"], line["endpoint"]) == (session.namespace, "dead")
    assert line["error"] == "connection refused"
    assert line["attempts"] == 3


@pytest.mark.parametrize("process", ["operator", "api"])
def test_every_line_of_a_json_log_is_json(session: Session, process: str) -> None:
    """Libraries' lines are JSON too, each with its level, its logger and a time in UTC."""
    log = session.operator.log if process == "operator" else session.api.log
    lines = complete_lines(log)
    assert lines
    for text in lines:
        line = json.loads(text)
        assert line["level"]
        assert line["logger"]
        assert line["timestamp"].endswith("Z")
