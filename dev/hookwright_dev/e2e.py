"""Cluster of the end-to-end suite, which runs pods: created here with the image, and removed afterwards.

``kind`` creates one in Docker. ``node`` uses a folder of commands that start one Kubernetes node without Docker.
``up DIR`` prints the path of a kubeconfig and leaves ``DIR/bin/kubectl``. ``base-image`` prints the name of an image to
build from. ``image NAME CONTEXT [--build-arg …]`` builds and loads. ``down DIR`` removes the node. The suite itself
accepts any cluster::

    HOOKWRIGHT_TEST_KUBECONFIG=… HOOKWRIGHT_TEST_IMAGE=… pytest tests/e2e
"""

import argparse
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import yaml

from hookwright_dev.cluster.postgres import postgres_server
from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.errors import DevError
from hookwright_dev.tools import GoTool, acquire_tool

KUBECONFIG_VARIABLE: Final = "HOOKWRIGHT_TEST_KUBECONFIG"
IMAGE_VARIABLE: Final = "HOOKWRIGHT_TEST_IMAGE"
DATABASE_VARIABLE: Final = "HOOKWRIGHT_TEST_DATABASE_URL"

KIND: Final = GoTool("kind", "sigs.k8s.io/kind", "v0.32.0")
KIND_CLUSTER: Final = "hookwright-e2e"
KIND_DATABASE: Final = "hookwright-e2e-postgres"
POSTGRES_IMAGE: Final = "postgres:17-alpine"
IMAGE: Final = "localhost/hookwright:e2e"

NODE: Final = ROOT.parent / "shared" / "node"
NODE_COMMANDS: Final = ("up", "base-image", "image", "down")
NODE_GATEWAY: Final = "10.244.0.1"
"""This machine's address as the node's pods see it."""
NODE_PODS: Final = "10.244.0.0/24"
NODE_NAME: Final = "node1"
NODE_VOLUMES: Final = 12

Environment = Mapping[str, str]
"""Variables of the suite that name the cluster."""


# ------------------------------------------------------------------------------------------ kind


@contextmanager
def kind_cluster() -> Iterator[Environment]:
    """Run a kind cluster with the image, and a PostgreSQL container that its pods reach. Needs Docker and Go.

    Raises `DevError` if Docker does not answer.
    """
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "info"], capture_output=True, check=False).returncode
    ):
        raise DevError("kind needs a Docker engine, and `docker info` does not answer; start Docker, or use `make e2e`")
    kind = acquire_tool(KIND)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hookwright-kind-")))
        kubeconfig, archive = folder / "kubeconfig", folder / "image.tar"
        # Without attestations: an image with attestations is an index, and kind cannot load it.
        _run("docker", "build", "--tag", IMAGE, ROOT, env={"BUILDX_NO_DEFAULT_ATTESTATIONS": "1"})
        _run("docker", "save", "--output", archive, IMAGE)
        stack.callback(_run, kind, "delete", "cluster", "--name", KIND_CLUSTER, "--kubeconfig", kubeconfig)
        _run(kind, "create", "cluster", "--name", KIND_CLUSTER, "--kubeconfig", kubeconfig, "--wait", "180s")
        _run(kind, "load", "image-archive", archive, "--name", KIND_CLUSTER)
        yield {
            KUBECONFIG_VARIABLE: str(kubeconfig),
            IMAGE_VARIABLE: IMAGE,
            DATABASE_VARIABLE: stack.enter_context(_kind_database()),
        }


@contextmanager
def _kind_database() -> Iterator[str]:
    password = secrets.token_hex(16)
    container = ("docker", "run", "--detach", "--rm", "--network", "kind", "--name", KIND_DATABASE)
    address = '{{(index .NetworkSettings.Networks "kind").IPAddress}}'
    _run(*container, "--env", "POSTGRES_PASSWORD", POSTGRES_IMAGE, env={"POSTGRES_PASSWORD": password})
    try:
        host = _run("docker", "inspect", "--format", address, KIND_DATABASE).strip()
        yield f"postgresql://postgres:{password}@{host}:5432/postgres"
    finally:
        _run("docker", "rm", "--force", KIND_DATABASE)


# ------------------------------------------------------------------------------------------ node


@contextmanager
def node_cluster(commands: Path) -> Iterator[Environment]:
    """Run a node with the image, volumes to claim, and a PostgreSQL server that its pods reach. Needs root.

    Args:
        commands: the folder with ``up``, ``base-image``, ``image`` and ``down``.

    Raises:
        DevError: the folder lacks a command, a node is up already, or a command failed.
    """
    if missing := [name for name in NODE_COMMANDS if not os.access(commands / name, os.X_OK)]:
        raise DevError(
            f"{commands} has no command {', '.join(missing)}: name a folder whose commands start a node (NODE=…), or an"
            f" existing cluster ({KUBECONFIG_VARIABLE}, then `make e2e`), or use `make e2e-kind`"
        )
    folder = Path(tempfile.gettempdir()) / "hookwright-node"
    if (folder / "pids").exists():
        raise DevError(f"a node is up in {folder} already; take it down with `{commands / 'down'}` and try again")
    with ExitStack() as stack:
        stack.callback(_run, commands / "down", folder)
        kubeconfig = _run(commands / "up", folder).strip().splitlines()[-1]
        base = _run(commands / "base-image").strip().splitlines()[-1]
        _run(commands / "image", IMAGE, ROOT, "--build-arg", f"PYTHON_IMAGE={base}")
        _run(folder / "bin" / "kubectl", "apply", "-f", "-", stdin=_volumes(folder), env={"KUBECONFIG": kubeconfig})
        yield {
            KUBECONFIG_VARIABLE: kubeconfig,
            IMAGE_VARIABLE: IMAGE,
            DATABASE_VARIABLE: stack.enter_context(_node_database()),
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        }


def _volumes(folder: Path) -> str:
    """Return a default StorageClass and its volumes: folders of this machine, as the node has no provisioner."""
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "folders", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE_NAME]}
    volumes = []
    for number in range(NODE_VOLUMES):
        path = folder / "volumes" / str(number)
        path.mkdir(parents=True, exist_ok=True)
        volumes.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"folder-{number}"},
                "spec": {
                    "storageClassName": "folders",
                    "capacity": {"storage": "10Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "local": {"path": str(path)},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
                },
            }
        )
    return yaml.safe_dump_all([storage_class, *volumes])


@contextmanager
def _node_database() -> Iterator[str]:
    password = secrets.token_hex(16)
    with tempfile.NamedTemporaryFile("w", prefix="hookwright-access-", suffix=".conf") as access:
        access.write(f"host all all 127.0.0.1/32 trust\nhost all all {NODE_PODS} scram-sha-256\n")
        access.flush()
        # The server runs as another user.
        Path(access.name).chmod(0o644)
        settings = {"listen_addresses": f"'127.0.0.1,{NODE_GATEWAY}'", "hba_file": f"'{access.name}'"}
        with postgres_server(settings) as server:
            server.execute(f"CREATE ROLE e2e LOGIN PASSWORD '{password}'", "CREATE DATABASE e2e OWNER e2e")
            yield f"postgresql://e2e:{password}@{NODE_GATEWAY}:{server.port}/e2e"


# ------------------------------------------------------------------------------------------ command line


def _run(*argv: str | Path, stdin: str = "", env: Environment | None = None) -> str:
    """Run a command with its progress shown, and return its standard output."""
    command = [str(argument) for argument in argv]
    print(f"+ {' '.join(command[:4])}", file=sys.stderr, flush=True)
    process = subprocess.run(
        command, input=stdin, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, text=True, check=False
    )
    if process.returncode != 0:
        raise DevError(
            f"{' '.join(command[:4])} ended with status {process.returncode}{process.stdout and ': ' + process.stdout}"
        )
    return process.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Start a cluster, run the suite on it, remove the cluster; return pytest's exit code."""
    parser = argparse.ArgumentParser(prog="hookwright_dev.e2e", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    kinds.add_parser("kind", help="a kind cluster, by Docker")
    node = kinds.add_parser("node", help="a node of this machine, without Docker")
    node.add_argument("--commands", type=Path, default=NODE, help="the folder of its commands (default: %(default)s)")
    options, further = parser.parse_known_args(arguments)
    # SIGTERM ends the suite in the same way, so that the cluster is removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with kind_cluster() if options.kind == "kind" else node_cluster(options.commands.resolve()) as environment:
            argv: list[str | Path] = [sys.executable, "-m", "pytest", ROOT / "tests" / "e2e", *further]
            return subprocess.run(argv, cwd=ROOT, env={**os.environ, **environment}, check=False).returncode
    except DevError as error:
        print(f"e2e: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
