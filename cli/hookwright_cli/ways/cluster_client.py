"""Requests to the API server, with the user's kubeconfig and the official client: exec plugins, OIDC, contexts."""

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException, list_kube_config_contexts, load_kube_config
from kubernetes.config.incluster_config import InClusterConfigLoader
from urllib3.exceptions import HTTPError
from urllib3.exceptions import TimeoutError as NoAnswerError

from hookwright_cli.command_errors import CommandError, ExitCode, exit_code_of
from hookwright_cli.deadline import DEADLINE

_CONNECT_SECONDS = 10.0
_SECONDS = 60.0
_PAGE = 500
FIELD_MANAGER = "hookwright"
APPS = "/apis/apps/v1"
POD_CREDENTIALS = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class ClusterClient:
    """A client of one cluster.

    Attributes:
        namespace: the namespace of the kubeconfig's context.
    """

    def __init__(self, kubeconfig: str = "", context: str = "") -> None:
        # A refused connection is reported by this program.
        logging.getLogger("urllib3").setLevel(logging.CRITICAL)
        logging.getLogger("kubernetes").setLevel(logging.CRITICAL)
        file = kubeconfig or os.environ.get("KUBECONFIG") or None
        configuration = Configuration()
        # The client copies this into its pool of connections, so a later change has no effect.
        configuration.retries = False
        has_kubeconfig = bool(file or context) or (Path.home() / ".kube" / "config").exists()
        contexts: list[dict[str, Any]] = []
        current: dict[str, Any] = {"name": "of this pod", "context": {"namespace": pod_namespace()}}
        try:
            if pod_namespace() and not has_kubeconfig:
                paths = (str(POD_CREDENTIALS / "token"), str(POD_CREDENTIALS / "ca.crt"))
                InClusterConfigLoader(*paths).load_and_set(configuration)
            else:
                contexts, current = list_kube_config_contexts(config_file=file)
                if context not in {"", *(names := [str(entry["name"]) for entry in contexts])}:
                    message = f'the kubeconfig has no context "{context}"; known contexts: {", ".join(names)}'
                    raise CommandError(message, ExitCode.NOT_FOUND)
                load_kube_config(file, context or None, configuration, persist_config=False)
        except (ConfigException, OSError) as error:
            raise CommandError(
                f"no usable kubeconfig: {error}",
                ExitCode.USAGE,
                hint="set KUBECONFIG or --kubeconfig, or use /v1 after `hookwright login --url URL`",
            ) from None
        self.api = ApiClient(configuration)
        choice = next((entry for entry in contexts if entry["name"] == context), current)
        self.namespace = str((choice.get("context") or {}).get("namespace") or "default")
        self.name = str(choice.get("name", ""))

    def close(self) -> None:
        """Close the connections."""
        self.api.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: Any = None,
        kind: str = "application/json",
    ) -> Any:
        """Return the answer of the API server."""
        server = f"the API server at {self.api.configuration.host}"
        headers = {"Accept": "application/json", **({"Content-Type": kind} if body is not None else {})}
        try:
            call = self.api.param_serialize(
                method, path, query_params=list(query), header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            with DEADLINE.waiting(server, _SECONDS) as seconds:
                answer = self.api.call_api(*call, _request_timeout=(min(_CONNECT_SECONDS, seconds), seconds))
                content = answer.read()
        except (NoAnswerError, TimeoutError):
            raise CommandError(f"{server} did not answer in time", ExitCode.UNAVAILABLE) from None
        except (ApiException, HTTPError, OSError) as error:
            reason = str(getattr(error, "reason", "") or error).strip()
            raise CommandError(f"the API server cannot be reached: {reason}", ExitCode.UNAVAILABLE) from None
        if answer.status >= 300:
            raise _refused(answer.status, content)
        return json.loads(content) if content else None

    def items(self, path: str, selector: str = "") -> Iterator[dict[str, Any]]:
        """Yield the objects of a list, in pages."""
        query = [("limit", str(_PAGE)), *([("labelSelector", selector)] if selector else [])]
        following: list[tuple[str, str]] = []
        while True:
            page = self.request("GET", path, query=[*query, *following])
            yield from page["items"]
            if not page["metadata"].get("continue"):
                return
            following = [("continue", page["metadata"]["continue"])]

    def names(self, path: str) -> list[str]:
        """Return the names of the objects of a list."""
        return [str(item["metadata"]["name"]) for item in self.items(path)]

    def patch(self, path: str, body: Mapping[str, Any], manager: str = FIELD_MANAGER) -> dict[str, Any]:
        """Apply a merge patch and return the object."""
        query = [("fieldManager", manager)]
        answer = self.request("PATCH", path, query=query, body=dict(body), kind="application/merge-patch+json")
        return dict(answer)

    def operators(self, namespace: str) -> list[dict[str, Any]]:
        """Return the Deployments of the operator in the namespace of an installation."""
        return list(self.items(core("deployments", namespace, group=APPS), "app.kubernetes.io/component=operator"))

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object and return it."""
        return dict(self.request("POST", path, query=[("fieldManager", FIELD_MANAGER)], body=dict(body)))


def pod_namespace() -> str:
    """Return the namespace of the pod in which this process runs, empty outside of a cluster."""
    try:
        return (POD_CREDENTIALS / "namespace").read_text() if os.environ.get("KUBERNETES_SERVICE_HOST") else ""
    except OSError:
        return ""


def core(plural: str, namespace: str = "", name: str | None = None, *, group: str = "/api/v1") -> str:
    """Return the path of objects: of all namespaces, of one, or of one object.

    Raises:
        CommandError: the name is none; it would make the path that of all objects.
    """
    place = f"{group}/namespaces/{quote(namespace, safe='')}" if namespace else group
    if name in ("", ".", ".."):
        raise CommandError(f"{name!r} is no name of an object", ExitCode.USAGE)
    return f"{place}/{plural}" + ("" if name is None else f"/{quote(name, safe='')}")


def resources(plural: str, namespace: str = "", name: str | None = None) -> str:
    """Return the path of objects of Hookwright."""
    return core(plural, namespace, name, group="/apis/hookwright.dev/v1alpha1")


def _refused(status: int, content: bytes) -> CommandError:
    try:
        answer = json.loads(content)
        message, reason = str(answer["message"]), str(answer.get("reason", ""))
    except (ValueError, KeyError, TypeError):
        message, reason = f"the API server answered {status}", ""
    return CommandError(message, exit_code_of(status), problem=reason, status=status)
