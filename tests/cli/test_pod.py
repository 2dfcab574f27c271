"""The command line in the operator's pod, as `kubectl exec deploy/hookwright-operator -- hookwright status` runs it."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support.command_transcripts import Transcript

from hookwright_cli.ways import cluster_client
from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE, install, service_account_token
from hookwright_dev.cluster.kubectl import Cluster


def test_without_a_kubeconfig_a_command_uses_the_service_account_of_its_pod(
    control_plane: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rights of the operator suffice for `status`, and the installation is that of the pod."""
    install(control_plane)
    token = service_account_token(control_plane, "hookwright-operator", namespace=SYSTEM_NAMESPACE)
    for name, text in (("token", token), ("namespace", SYSTEM_NAMESPACE), ("ca.crt", control_plane.ca.read_text())):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(cluster_client, "POD_CREDENTIALS", tmp_path)
    server = urlsplit(control_plane.server)
    commands = Transcript(
        {
            "HOME": str(tmp_path),
            "XDG_CONFIG_HOME": None,
            "KUBECONFIG": None,
            "KUBERNETES_SERVICE_HOST": server.hostname,
            "KUBERNETES_SERVICE_PORT": str(server.port),
        }
    )
    status = commands.quiet("status", "-n", namespace)
    assert status.exit_code == 0, status.stderr
    assert f"kubeconfig, cluster of this pod, namespace {namespace}, installation {SYSTEM_NAMESPACE}" in " ".join(
        status.stdout.split()
    )
    commands.environment["KUBERNETES_SERVICE_HOST"] = None
    assert "no usable kubeconfig" in commands.quiet("status").stderr
