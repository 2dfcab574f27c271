"""At uninstall, endpoints that remain lose Hookwright's finalizer, because no operator is left to remove it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from support.chart_rendering import CHART, Chart, named

from hookwright_dev.cluster.installation import service_account_token
from hookwright_dev.cluster.kubectl import Cluster

PROJECT = {"apiVersion": "hookwright.dev/v1alpha1", "kind": "Project", "metadata": {"name": "billing"}}


def _endpoint(name: str, *finalizers: str) -> dict[str, object]:
    return {
        "apiVersion": "hookwright.dev/v1alpha1",
        "kind": "WebhookEndpoint",
        "metadata": {"name": name, "finalizers": list(finalizers)},
        "spec": {"projectRef": {"name": "billing"}, "url": "https://example.com/", "events": ["delivered"]},
    }


def _run(cluster: Cluster, chart: Chart, namespace: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the hook's program as its Job would, with the rights that the chart gives it in ``namespace``."""
    values = {"settings": {"watchNamespaces": [namespace]}}
    objects = chart.objects(values, namespace=namespace)
    for kind in ("ServiceAccount", "Role", "RoleBinding"):
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(named(objects, kind, "hookwright-uninstall")))
    (folder / "token").write_text(service_account_token(cluster, "hookwright-uninstall", namespace=namespace))
    (folder / "ca.crt").write_bytes(cluster.ca.read_bytes())
    server = urlsplit(cluster.server)
    (container,) = named(objects, "Job", "hookwright-uninstall")["spec"]["template"]["spec"]["containers"]
    return subprocess.run(
        [sys.executable, "-c", *container["args"]],
        env={
            **os.environ,
            "KUBERNETES_SERVICE_HOST": server.hostname or "",
            "KUBERNETES_SERVICE_PORT": str(server.port or 443),
            "SERVICE_ACCOUNT_FOLDER": str(folder),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_uninstalling_lets_endpoints_go_and_leaves_what_is_not_ours(
    control_plane: Cluster, chart: Chart, namespace: str, tmp_path: Path
) -> None:
    """Hookwright's finalizer is removed, another one stays; the endpoints stay too, and can be deleted."""
    ours, theirs = "hookwright.dev/deliveries", "example.com/theirs"
    for body in (PROJECT, _endpoint("plain"), _endpoint("held", ours), _endpoint("shared", theirs, ours)):
        control_plane.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(body))

    result = _run(control_plane, chart, namespace, tmp_path)

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"took the finalizer {ours} from 2 endpoints\n"
    endpoints = json.loads(control_plane.kubectl("get", "webhookendpoints", "-n", namespace, "-o", "json").stdout)
    finalizers = {item["metadata"]["name"]: item["metadata"].get("finalizers", []) for item in endpoints["items"]}
    assert finalizers == {"plain": [], "held": [], "shared": [theirs]}
    control_plane.kubectl(
        "patch",
        "hwep",
        "shared",
        "-n",
        namespace,
        "--type=json",
        "-p",
        '[{"op":"remove","path":"/metadata/finalizers"}]',
    )
    control_plane.kubectl("delete", "hwep", "--all", "-n", namespace, "--timeout=60s")


def test_a_refusal_is_told(control_plane: Cluster, chart: Chart, namespace: str, tmp_path: Path) -> None:
    """Without the right to list, the program reports the error and fails, and so does the uninstallation."""
    assert _run(control_plane, chart, namespace, tmp_path).returncode == 0
    control_plane.kubectl("delete", "rolebinding", "hookwright-uninstall", "-n", namespace)
    source = (CHART / "files" / "release_finalizers.py").read_text()
    server = urlsplit(control_plane.server)
    result = subprocess.run(
        [sys.executable, "-c", source, namespace],
        env={
            **os.environ,
            "KUBERNETES_SERVICE_HOST": server.hostname or "",
            "KUBERNETES_SERVICE_PORT": str(server.port or 443),
            "SERVICE_ACCOUNT_FOLDER": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 1
    assert "403" in result.stderr
