"""The store of an installation, through ``exec`` in pods: copies of SQLite, and the owner of any database."""

import base64
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from kubernetes.client.exceptions import ApiException
from kubernetes.stream.ws_client import websocket_call

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.ways.cluster_client import APPS, core
from hookwright_cli.ways.kubeconfig_way import KubeconfigWay

_STORE = "/var/lib/hookwright"
_COPY = f"{_STORE}/backup.db"
_PREPARE = f"""
import pathlib, sqlite3
copy = pathlib.Path({_COPY!r})
copy.unlink(missing_ok=True)
sqlite3.connect('file:{_STORE}/hookwright.db?mode=ro', uri=True).execute('VACUUM INTO ?', (str(copy),))
print(copy.stat().st_size)"""
_READ = f"import shutil, sys; shutil.copyfileobj(open({_COPY!r}, 'rb'), sys.stdout.buffer)"
_CLEAN = f"import pathlib; pathlib.Path({_COPY!r}).unlink(missing_ok=True)"
# The old write-ahead log would be applied to the new file.
_WRITE = f"""
import base64, pathlib, sys
folder, size = pathlib.Path({_STORE!r}), int(sys.argv[1])
with open(folder / 'restored.db', 'wb') as copy:
    while copy.tell() < size: copy.write(base64.b64decode(sys.stdin.readline()))
for name in ('hookwright.db-wal', 'hookwright.db-shm'): (folder / name).unlink(missing_ok=True)
(folder / 'restored.db').replace(folder / 'hookwright.db')
print('replaced')"""
_ADOPT = "import sys; from hookwright_operator.adopt import main; sys.exit(main())"
_CHUNK = 48 * 1024
_POD = "hookwright-restore"
_OF_POD = (
    *("securityContext", "imagePullSecrets", "nodeSelector", "tolerations", "volumes", "enableServiceLinks"),
    *("dnsConfig", "hostAliases"),
)
_OF_CONTAINER = ("image", "env", "envFrom", "securityContext", "volumeMounts")
_WAIT_SECONDS = 120.0


class StoreCopy:
    """The store of the one operator of an installation."""

    def __init__(self, way: KubeconfigWay, *, only_sqlite: bool = True) -> None:
        self._cluster, self._namespace = way.cluster, way.installation
        deployments = self._cluster.operators(self._namespace)
        if len(deployments) != 1:
            raise CommandError(
                f"namespace {self._namespace} has {len(deployments)} Deployments of the operator",
                ExitCode.NOT_FOUND,
                hint="--installation names another namespace",
            )
        (self._deployment,) = deployments
        self._spec = self._deployment["spec"]["template"]["spec"]
        if only_sqlite and not self._is_sqlite():
            raise CommandError(
                "the store is PostgreSQL: use pg_dump and pg_restore, or the tools of its provider", ExitCode.OTHER_WAY
            )

    def _is_sqlite(self) -> bool:
        variables = [variable for container in self._spec["containers"] for variable in container.get("env") or ()]
        urls = [entry.get("value", "postgresql") for entry in variables if entry["name"] == "HOOKWRIGHT_DATABASE_URL"]
        return all(url.startswith("sqlite") for url in urls)

    @contextmanager
    def copied(self) -> Iterator[tuple[int, Callable[[BinaryIO, Callable[[float], None]], None]]]:
        """Make a consistent copy beside the store for the block; yield its size in bytes, and a function to read it."""
        pods = [
            pod["metadata"]["name"]
            for pod in self._pods()
            if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
        ]
        if not pods:
            raise CommandError(
                "no pod of the operator runs", ExitCode.UNAVAILABLE, hint="`hookwright status` shows the reason"
            )

        def read(target: BinaryIO, report: Callable[[float], None]) -> None:
            with self._program(pods[0], _READ) as stream:
                while stream.is_open():
                    stream.update(timeout=30)
                    while stream.peek_stdout():
                        target.write(stream.read_stdout())
                        report(target.tell())

        try:
            yield int(self._output_of(pods[0], _PREPARE)), read
        finally:
            # A failure before this one is reported instead.
            with suppress(CommandError):
                self._output_of(pods[0], _CLEAN)

    def adopt(self, previous: str) -> str:
        """Transfer the database of an owner to this installation, whose operator is stopped; return the new owner."""
        cluster = self._cluster.request("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"]
        owner = f"{cluster}/{self._namespace}"
        self._output_of(_POD, _ADOPT, "--from", previous, "--to", owner)
        return owner

    @contextmanager
    def operator_stopped(self, say: Callable[[str], None]) -> Iterator[None]:
        """Run no operator inside the context, but a pod with its volume."""
        replicas = self._deployment["spec"].get("replicas", 1)
        self._scale(0)
        try:
            _wait(lambda: not self._pods(), "the pod of the operator did not end in time")
            say("starting a pod with the volume of the store")
            path = core("pods", self._namespace, _POD)
            self._cluster.create(core("pods", self._namespace), self._pod_with_volume())
            try:
                _wait(
                    lambda: self._cluster.request("GET", path)["status"].get("phase") == "Running",
                    f"pod {_POD} did not start in time",
                    hint=f"kubectl describe pod {_POD} -n {self._namespace}",
                )
                yield
            finally:
                self._cluster.request("DELETE", path, query=[("gracePeriodSeconds", "0")])
        finally:
            self._scale(max(replicas, 1))
            # Otherwise a later `helm upgrade` with other replicas is a conflict with the owner of that field.
            if owners := self._deployment["metadata"].get("managedFields"):
                self._cluster.patch(self._path(), {"metadata": {"managedFields": owners}})

    def write(self, source: BinaryIO, size: int, report: Callable[[float], None]) -> None:
        """Replace the store by the content of a file."""
        with self._program(_POD, _WRITE, str(size), stdin=True) as stream:
            while stream.is_open() and (part := source.read(_CHUNK)):
                stream.write_stdin(base64.b64encode(part) + b"\n")
                report(source.tell())

    @contextmanager
    def _program(self, pod: str, *program: str, stdin: bool = False) -> Iterator[Any]:
        """Run a Python program in a pod, and yield its streams; at the end, wait until it has succeeded."""
        api, path = self._cluster.api, f"{core('pods', self._namespace, pod)}/exec"
        query = [*(("command", word) for word in ("python", "-c", *program)), ("stdout", "true"), ("stderr", "true")]
        query += [("stdin", "true")] if stdin else []
        try:
            call = api.param_serialize("GET", path, query_params=query, auth_settings=["BearerToken"])
            stream = websocket_call(api.configuration, *call[:2], headers=call[2], binary=True, _preload_content=False)
        except ApiException as error:
            reason = (error.reason or "").split("\n", 1)[0].strip()
            raise CommandError(
                f"exec in pod {self._namespace}/{pod} was refused: {reason}", ExitCode.FORBIDDEN
            ) from None
        try:
            yield stream
            stream.run_forever()
            _check(stream)
        finally:
            stream.close()

    def _output_of(self, pod: str, *program: str) -> bytes:
        with self._program(pod, *program) as stream:
            stream.run_forever()
            return bytes(stream.read_stdout() if stream.peek_stdout() else b"")

    def _scale(self, replicas: int) -> None:
        self._cluster.patch(f"{self._path()}/scale", {"spec": {"replicas": replicas}})

    def _path(self) -> str:
        return core("deployments", self._namespace, self._deployment["metadata"]["name"], group=APPS)

    def _pods(self) -> list[dict[str, Any]]:
        """Return the pods of the operator."""
        labels = self._deployment["spec"]["selector"]["matchLabels"]
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        return list(self._cluster.items(core("pods", self._namespace), selector))

    def _pod_with_volume(self) -> dict[str, Any]:
        """Return a pod with the image, user, database and volumes of the operator."""
        if self._is_sqlite() and not any("persistentVolumeClaim" in entry for entry in self._spec.get("volumes") or ()):
            raise CommandError("the operator has no volume claim for its store", ExitCode.CONFLICT)
        container = self._spec["containers"][0]
        program = {
            "name": "restore",
            "command": ["python", "-c", "import time; time.sleep(3600)"],
            **{name: container[name] for name in _OF_CONTAINER if name in container},
        }
        spec = {name: self._spec[name] for name in _OF_POD if name in self._spec}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": _POD, "labels": {"app.kubernetes.io/part-of": "hookwright"}},
            "spec": {**spec, "restartPolicy": "Never", "containers": [program]},
        }


def _wait(has_happened: Callable[[], bool], failure: str, *, hint: str = "") -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not has_happened():
        if time.monotonic() > deadline:
            raise CommandError(failure, ExitCode.UNAVAILABLE, hint=hint)
        time.sleep(0.5)


def _check(stream: Any) -> None:
    """Return if the program of a finished stream succeeded."""
    output = stream.read_stderr() if stream.peek_stderr() else b""
    try:
        has_failed = bool(stream.returncode)
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(f"exec in the pod failed: {error}", ExitCode.UNAVAILABLE) from None
    if has_failed:
        last = output.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1]
        raise CommandError(f"the program in the pod failed: {last}")
