"""Objects of a cluster over one HTTP connection, as its administrator.

A start of kubectl costs about 0.1 s of CPU, a request over an open connection 3 ms. kubectl remains for what people
run.
"""

import ssl
import time
from base64 import b64decode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from hookwright_dev.errors import KubectlError

Object = dict[str, Any]

_OURS: Final = "apis/hookwright.dev/v1alpha1"
_RBAC: Final = "apis/rbac.authorization.k8s.io/v1"
KINDS: Final = {
    "Namespace": "api/v1/namespaces",
    "Secret": "api/v1/secrets",
    "ConfigMap": "api/v1/configmaps",
    "Event": "api/v1/events",
    "ServiceAccount": "api/v1/serviceaccounts",
    "ResourceQuota": "api/v1/resourcequotas",
    "Lease": "apis/coordination.k8s.io/v1/leases",
    "Role": f"{_RBAC}/roles",
    "RoleBinding": f"{_RBAC}/rolebindings",
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
    "Project": f"{_OURS}/projects",
    "ApiKey": f"{_OURS}/apikeys",
    "WebhookEndpoint": f"{_OURS}/webhookendpoints",
    "EventType": f"{_OURS}/eventtypes",
}
"""The path of each kind."""

NAMES: Final = {"hwproj": "Project", "hwkey": "ApiKey", "hwep": "WebhookEndpoint", "hwtype": "EventType"} | {
    name: kind for kind, path in KINDS.items() for name in (kind, kind.lower(), path.rpartition("/")[2])
}
"""The kind of each name that kubectl knows too."""

_MANAGER: Final = "kubectl"


class Objects:
    """Reads and writes of the objects of a cluster.

    Every method raises `KubectlError` with the API server's message if the API server refuses or does not answer.

    Args:
        client: `administrator` makes one.
    """

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def create(self, kind: str, name: str, namespace: str = "", **fields: object) -> Object:
        """Create an object and return it."""
        document = {**_typed(kind), "metadata": {"name": name}, **fields}
        return self._request("POST", _path(kind, namespace), json=document)

    def create_from(self, text: str, namespace: str) -> Object:
        """Create the object of a YAML document as it is written, and return it; unknown fields are refused."""
        return self._request(
            "POST",
            _path(yaml.safe_load(text)["kind"], namespace),
            content=text,
            headers={"Content-Type": "application/yaml"},
            params={"fieldValidation": "Strict"},
        )

    def apply(self, *documents: Mapping[str, Any], namespace: str = "") -> None:
        """Create or change objects by server-side apply; conflicts with other managers are forced."""
        for document in documents:
            metadata = document["metadata"]
            path = _path(document["kind"], metadata.get("namespace") or namespace, metadata["name"])
            self._request(
                "PATCH",
                path,
                content=yaml.safe_dump({**_typed(document["kind"]), **document}, sort_keys=False),
                headers={"Content-Type": "application/apply-patch+yaml"},
                params={"fieldManager": _MANAGER, "force": "true", "fieldValidation": "Strict"},
            )

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """Return an object, None if it does not exist."""
        response = self._send("GET", _path(kind, namespace, name))
        return None if response.status_code == 404 else _checked(response)

    def list(self, kind: str, namespace: str = "") -> "list[Object]":
        """Return all objects of a kind in a namespace, or in all."""
        return [{**_typed(kind), **item} for item in self._request("GET", _path(kind, namespace))["items"]]

    def patch(self, kind: str, name: str, namespace: str, patch: object, *, subresource: str = "") -> Object:
        """Patch an object and return it: a list is a JSON patch, a mapping a merge patch."""
        path = "/".join(filter(None, (_path(kind, namespace, name), subresource)))
        form = "json-patch" if isinstance(patch, list) else "merge-patch"
        headers = {"Content-Type": f"application/{form}+json"}
        return self._request("PATCH", path, json=patch, headers=headers, params={"fieldManager": _MANAGER})

    def delete(self, kind: str, *names: str, namespace: str = "", wait: bool = True, seconds: float = 60.0) -> None:
        """Delete objects; wait until they are gone, or others with their names are there.

        Raises:
            KubectlError: an object does not exist, or is still there after so many seconds.
        """
        deadline = time.monotonic() + seconds
        options = {"propagationPolicy": "Background"}
        answers = {name: self._request("DELETE", _path(kind, namespace, name), params=options) for name in names}
        for name, answer in answers.items() if wait else ():
            uid = (answer.get("details") or answer["metadata"])["uid"]
            while (self.get(kind, name, namespace) or {}).get("metadata", {}).get("uid") == uid:
                if time.monotonic() > deadline:
                    raise KubectlError(f"{kind} {name} still exists {seconds:g} s after its deletion")
                time.sleep(0.02)

    def token(self, account: str, namespace: str, *, audience: str | None = None, seconds: int = 86_400) -> str:
        """Return a token of a ServiceAccount."""
        spec = {"audiences": [audience] if audience else [], "expirationSeconds": seconds}
        path = f"{_path('ServiceAccount', namespace, account)}/token"
        return str(self._request("POST", path, json={"spec": spec})["status"]["token"])

    def may(
        self,
        user: str,
        verb: str,
        resource: str,
        namespace: str = "",
        *,
        group: str = "",
        name: str = "",
        groups: Sequence[str] = (),
    ) -> bool:
        """Return whether a user has a right.

        Args:
            user: such as ``system:serviceaccount:hookwright-system:hookwright-api``.
            verb: such as ``get``.
            resource: ``resource`` or ``resource/subresource``.
            namespace: empty: in all namespaces.
            group: the API group of the resource.
            name: of the object; empty: of all objects.
            groups: of the user, beside those that every user or every ServiceAccount has.
        """
        resource, _, subresource = resource.partition("/")
        attributes = {
            "verb": verb,
            "resource": resource,
            "subresource": subresource,
            "group": group,
            "namespace": namespace,
            "name": name,
        }
        account_groups = ["system:serviceaccounts"] if user.startswith("system:serviceaccount:") else []
        everybody = [*account_groups, "system:authenticated", *groups]
        review = {"spec": {"user": user, "groups": everybody, "resourceAttributes": attributes}}
        path = "apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(self._request("POST", path, json=review)["status"]["allowed"])

    def _request(self, method: str, path: str, **options: Any) -> Object:
        return _checked(self._send(method, path, **options))

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            return self._client.request(method, path, **options)
        except httpx.TransportError as error:
            raise KubectlError(f"{method} {path}: {error}") from error


def administrator(server: str, ca: Path, user: Mapping[str, str], folder: Path) -> httpx.Client:
    """Return a client with the credentials of a kubeconfig's user: a token, or a certificate.

    Args:
        server: URL of the API server.
        ca: the certificate authority of the server, PEM.
        user: the credentials, by their names in a kubeconfig.
        folder: for the file that Python's ssl module reads the certificate from.
    """
    context = ssl.create_default_context(cafile=ca) if ca.stat().st_size else ssl.create_default_context()
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    if not headers:
        chain = folder / "administrator.pem"
        chain.touch(mode=0o600)
        chain.write_bytes(b64decode(user["client-certificate-data"]) + b64decode(user["client-key-data"]))
        context.load_cert_chain(chain)
    return httpx.Client(base_url=server, verify=context, headers=headers, trust_env=False, timeout=60.0)


def _typed(kind: str) -> Object:
    group, _, version = KINDS[NAMES[kind]].rpartition("/")[0].partition("/")[2].rpartition("/")
    return {"apiVersion": f"{group}/{version}" if group else version, "kind": NAMES[kind]}


def _path(kind: str, namespace: str = "", name: str = "") -> str:
    prefix, _, plural = KINDS[NAMES[kind]].rpartition("/")
    scope = f"namespaces/{namespace}" if namespace else ""
    return "/".join(filter(None, (prefix, scope, plural, name)))


def _checked(response: httpx.Response) -> Object:
    if response.is_error:
        try:
            message = response.json()["message"]
        except (ValueError, KeyError):
            message = response.text
        raise KubectlError(f"{response.request.method} {response.request.url.path}: {message}")
    document: Object = response.json()
    return document
