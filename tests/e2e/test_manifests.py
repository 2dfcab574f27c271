"""Who has no helm applies the manifests, with an overlay of their own that names the image."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from e2e.acting import Organization
from e2e.installing import NAMESPACE, PRIVATE, Installation, eventually, image_values

from hookwright_dev.stack import ROOT


@pytest.fixture
def served(bare: Installation, tmp_path: Path) -> Iterator[Organization]:
    """An organization that an overlay as in docs/install.md serves, with receivers allowed in the cluster."""
    image = image_values(bare.image)
    # The name in the manifests is what an overlay finds the image by.
    chosen = {"name": "hookwright/hookwright", "newName": image["repository"], "newTag": image.get("tag", "latest")}
    settings = [
        {"name": "HOOKWRIGHT_ALLOW_HTTP", "value": "true"},
        {"name": "HOOKWRIGHT_ALLOWED_NETWORKS", "value": ",".join(PRIVATE)},
    ]
    patch = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "hookwright-operator", "namespace": NAMESPACE},
        "spec": {"template": {"spec": {"containers": [{"name": "operator", "env": settings}]}}},
    }
    overlay = {
        "resources": [os.path.relpath(ROOT / "deploy", tmp_path)],
        "images": [chosen],
        "patches": [{"patch": yaml.safe_dump(patch)}],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    bare.kubectl("apply", "-k", str(tmp_path), "--server-side")
    bare.wait_ready()
    yield Organization(bare).create()
    # While the operator is there to let the endpoints go; helm would not take over what it has not made.
    for namespace in bare.organizations:
        bare.kubectl("delete", "namespace", namespace, "--timeout=60s", timeout=70)
    bare.kubectl("delete", "clusterrole,clusterrolebinding", "-l", "app.kubernetes.io/part-of=hookwright")
    # A namespace with pods in it is looked at again only when half of their grace period is over.
    bare.kubectl("delete", "deployments", "--all", "-n", NAMESPACE)
    eventually(lambda: not bare.names("pods", "-n", NAMESPACE), "the pods have gone")


def test_plain_manifests_are_an_installation_too(served: Organization) -> None:
    """Every pod becomes Ready, and an event goes from a producer's pod to a receiver's, signed."""
    served.with_endpoint()
    assert served.post({"type": "delivered", "messageId": "m-1"}).status == 202
    served.arrived("orders", ["m-1"])
