"""Several replicas on one PostgreSQL database, each with its roles."""

import base64
import json
from pathlib import Path
from typing import Any

import httpx
import yaml
from cluster.conftest import ACCELERATED
from support.cluster_actions import sample
from support.json_lines import entries

from hookwright_dev.cluster.installation import OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster


def replica(cluster: Cluster, folder: Path, url: str, roles: str, **settings: str) -> OperatorProcess:
    """Describe a replica with some roles on a database; setting names have no prefix."""
    chosen = {f"HOOKWRIGHT_{name}": value for name, value in settings.items()}
    common = {**ACCELERATED, "HOOKWRIGHT_DATABASE_URL": url, "HOOKWRIGHT_ROLES": roles}
    return OperatorProcess(cluster, folder, {**common, **chosen})


def exposition(operator: OperatorProcess) -> str:
    """Return the metrics of a replica."""
    return httpx.get(f"{operator.health_url}/metrics", timeout=5, trust_env=False).text


def leads(operator: OperatorProcess) -> bool:
    """Return whether a replica reports that it leads."""
    return sample(exposition(operator), "hookwright_leader") == 1


def credential(operator: OperatorProcess) -> str:
    """Return the id that distinguishes a replica's token in the audit log from others of its ServiceAccount."""
    kubeconfig = yaml.safe_load((operator.folder / "hookwright-operator.kubeconfig").read_text())
    claims = kubeconfig["users"][0]["user"]["token"].split(".")[1]
    return f"JTI={json.loads(base64.urlsafe_b64decode(claims + '=='))['jti']}"


def writes(audit_log: Path, operator: OperatorProcess) -> list[dict[str, Any]]:
    """Return a replica's successful writes in the API server without reviews, oldest first."""
    mine = credential(operator)
    found = []
    for event in entries(audit_log):
        extra = (event["user"].get("extra") or {}).get("authentication.kubernetes.io/credential-id", [])
        written = event["verb"] in {"create", "update", "patch", "delete"} and event["responseStatus"]["code"] < 300
        if mine in extra and written and not event["objectRef"]["resource"].endswith("reviews"):
            found.append(event)
    return found
