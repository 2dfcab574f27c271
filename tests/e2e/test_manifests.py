"""An installation without helm: the plain manifests, with an overlay that names the image."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from e2e.installing import NAMESPACE, PRIVATE, Installation, image_values
from support.pod_actions import Organization
from support.polling import eventually

from hookwright_dev.cluster.stack import ROOT


@pytest.fixture
def served(bare: Installation, tmp_path: Path) -> Iterator[Organization]:
    """Yield an organization served by an overlay as in docs/install.md, with receivers allowed in the cluster."""
    image = image_values(bare.image)
    # The overlay finds the image by its name in the manifests.
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
    # While the operator can still remove the finalizers of endpoints; helm does not adopt objects that it did not
    # create.
    for namespace in bare.organizations:
        bare.kubectl("delete", "namespace", namespace, "--timeout=60s", timeout=70)
    kinds = "clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding"
    bare.kubectl("delete", kinds, "-l", "app.kubernetes.io/part-of=hookwright")
    # Kubernetes checks a namespace with pods again only after half of their grace period.
    bare.kubectl("delete", "deployments", "--all", "-n", NAMESPACE)
    eventually(lambda: not bare.names("pods", "-n", NAMESPACE), "the pods have gone")


def test_plain_manifests_are_an_installation_too(served: Organization) -> None:
    """Every pod becomes Ready, and a signed delivery goes from a producer's pod to a receiver's."""
    served.with_endpoint()
    assert served.post({"type": "delivered", "messageId": "m-1"}).status == 202
    served.arrived("orders", ["m-1"])
