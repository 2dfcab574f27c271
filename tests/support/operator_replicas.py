"""Several replicas on one PostgreSQL database, each with its roles."""

import base64
import json
import time
from pathlib import Path
from typing import Any

import yaml
from cluster.conftest import ACCELERATED
from support.json_lines import complete_lines
from support.polling import eventually

from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE, OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_operator.leader.election import LEASE

LEADER_LEASE = 5
"""Seconds; so short that a takeover takes no longer than a start."""


def replica(cluster: Cluster, folder: Path, url: str, roles: str, **settings: str) -> OperatorProcess:
    """Describe a replica with some roles on a database; setting names have no prefix."""
    environment = {f"HOOKWRIGHT_{name}": value for name, value in settings.items()}
    common = {**ACCELERATED, "HOOKWRIGHT_DATABASE_URL": url, "HOOKWRIGHT_ROLES": roles}
    return OperatorProcess(cluster, folder, {**common, **environment})


def leads(operator: OperatorProcess) -> bool:
    """Return whether a replica reports that it leads."""
    return operator.metric("hookwright_leader") == 1


def credential(operator: OperatorProcess) -> str:
    """Return the id that distinguishes a replica's token in the audit log from others of its ServiceAccount."""
    kubeconfig = yaml.safe_load((operator.folder / "hookwright-operator.kubeconfig").read_text())
    claims = kubeconfig["users"][0]["user"]["token"].split(".")[1]
    return f"JTI={json.loads(base64.urlsafe_b64decode(claims + '=='))['jti']}"


def writes(audit_log: Path, operator: OperatorProcess) -> list[dict[str, Any]]:
    """Return a replica's successful writes in the API server without reviews, oldest first."""
    token = credential(operator)
    # A log has many lines of other clients, and decoding them all would take seconds. The line of the request that
    # issued the token has its id as well.
    events = [json.loads(line) for line in complete_lines(audit_log) if token in line]
    return [
        event
        for event in events
        if token in event["user"].get("extra", {}).get("authentication.kubernetes.io/credential-id", [])
        and event["verb"] in {"create", "update", "patch", "delete"}
        and event["responseStatus"]["code"] < 300
        and not event["objectRef"]["resource"].endswith("reviews")
    ]


class Pair:
    """Two reconcilers on one database.

    Attributes:
        replicas: both; none is started at first.
    """

    def __init__(self, cluster: Cluster, folder: Path, url: str) -> None:
        lease = {"LEADER_LEASE": str(LEADER_LEASE)}
        self._cluster = cluster
        self.replicas = [replica(cluster, folder / name, url, "reconcile", **lease) for name in ("first", "second")]

    def leader_and_standby(self) -> tuple[OperatorProcess, OperatorProcess]:
        """Start what does not run, and return both when one leads."""
        for process in self.replicas:
            if process.process is None or not process.process.running:
                process.start()
        (leader,) = eventually(lambda: [process for process in self.replicas if leads(process)], "one leads")
        (standby,) = [process for process in self.replicas if process is not leader]
        return leader, standby

    def kill(self) -> None:
        """Kill both, and delete their Lease, for which others would wait."""
        for process in self.replicas:
            if process.process is not None:
                process.kill()
        delete_lease(self._cluster)


def delete_lease(cluster: Cluster) -> None:
    """Delete the Lease of killed replicas, for whose end the replicas of the next module would wait."""
    if cluster.objects.get("lease", LEASE, SYSTEM_NAMESPACE):
        cluster.objects.delete("lease", LEASE, namespace=SYSTEM_NAMESPACE)


def seconds_until_it_leads(operator: OperatorProcess, since: float) -> float:
    """Wait until a replica leads, and return how long that took."""
    eventually(lambda: leads(operator), "the other one leads", every=0.05)
    return time.monotonic() - since
