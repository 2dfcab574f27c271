"""The Secrets and ConfigMaps with credentials that `/v1` hands over: created once, never changed, never read back."""

from typing import Any, Final

from hookwright_crds import API_VERSION
from hookwright_crds.base import CREDENTIAL_LABEL, HOSTS_ANNOTATION, MADE_BY_API, core_path
from hookwright_crds.documents.credential_bodies import CONFIG_MAP, CredentialObject, CredentialsChange, is_secret_name
from hookwright_runtime.errors import KubeError, KubeUnavailable
from hookwright_runtime.kubernetes import KubernetesClient, Object
from hookwright_runtime.problems import Code, ProblemError, unavailable

_LABELS: Final = {**MADE_BY_API, CREDENTIAL_LABEL: "true"}
_PLURALS: Final = {"Secret": "secrets", CONFIG_MAP: "configmaps"}


class CredentialSecrets:
    """Writes these Secrets.

    Every replica with the right may write: no two requests write the same Secret, so this needs no leader.
    """

    def __init__(self, kube: KubernetesClient) -> None:
        self._kube = kube

    async def change(self, namespace: str, endpoint: str, change: CredentialsChange) -> None:
        """Create and delete Secrets of an endpoint; a repetition changes nothing.

        Raises:
            ProblemError: 409, a name is in use, or the quota is used up; 422, a name is another's; 503, no API server.
        """
        for name in (*change.created, *change.removed):
            if not is_secret_name(endpoint, name):
                raise ProblemError(422, f'"{name}" is not the name of a credential of this webhook')
        try:
            for name, credential in change.created.items():
                await self._create(_manifest(namespace, name, endpoint, change.uid, credential))
            for name in change.removed:
                for plural in _PLURALS.values():
                    await self._remove(core_path(plural, namespace, name), change.uid)
        except KubeError as error:
            # No text of the API server is passed on: an admission webhook may repeat the Secret.
            if error.status == 403 and "exceeded quota" in error.explanation:
                detail = "the organization's quota of Secrets is used up"
                raise ProblemError(409, detail, code=Code.QUOTA_EXCEEDED) from None
            if not isinstance(error, KubeUnavailable) and error.status in (400, 403, 422):
                raise ProblemError(409, "the cluster refuses a Secret with these credentials") from None
            raise unavailable("the API server does not accept the Secrets now") from None

    async def _create(self, manifest: Object) -> None:
        meta = manifest["metadata"]
        plural = _PLURALS[manifest["kind"]]
        try:
            await self._kube.post(core_path(plural, meta["namespace"]), manifest)
        except KubeError as error:
            if error.reason != "AlreadyExists":
                raise
            secret = await self._kube.get(core_path(plural, meta["namespace"], meta["name"]))
            if not _is_owned(secret, meta["ownerReferences"][0]["uid"]):
                detail = f'{manifest["kind"]} "{meta["name"]}" exists, and is not one of this webhook; delete it'
                raise ProblemError(409, detail) from None

    async def _remove(self, path: str, uid: str) -> None:
        try:
            secret = await self._kube.get(path)
        except KubeError as error:
            if error.status == 404:
                return
            raise
        if _is_owned(secret, uid):
            await self._kube.delete(path, uid=secret["metadata"]["uid"])


def _is_owned(secret: Object, uid: str) -> bool:
    meta = secret["metadata"]
    is_labelled = _LABELS.items() <= (meta.get("labels") or {}).items()
    return is_labelled and any(owner["uid"] == uid for owner in meta.get("ownerReferences") or ())


def _manifest(namespace: str, name: str, endpoint: str, uid: str, credential: CredentialObject) -> dict[str, Any]:
    """Return a Secret or ConfigMap that is deleted with its endpoint."""
    owner = {"apiVersion": API_VERSION, "kind": "WebhookEndpoint", "name": endpoint, "uid": uid, "controller": True}
    metadata = {"name": name, "namespace": namespace, "labels": {**_LABELS}, "ownerReferences": [owner]}
    manifest: Object = {"apiVersion": "v1", "immutable": True, "metadata": metadata}
    if credential.type == CONFIG_MAP:
        return {**manifest, "kind": CONFIG_MAP, "data": credential.fields}
    metadata["annotations"] = {HOSTS_ANNOTATION: ", ".join(credential.hosts)}
    return {**manifest, "kind": "Secret", "type": credential.type, "stringData": credential.fields}
