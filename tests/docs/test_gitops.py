"""The YAML of the page about GitOps is valid, and Kustomize changes the names in every place."""

import re
import shutil
from pathlib import Path

import pytest
import yaml

from hookwright_dev.cluster.kubectl import Kubectl
from hookwright_dev.cluster.stack import EXAMPLES, ROOT

PAGE = (ROOT / "docs" / "gitops.md").read_text()
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
KINDS = {"ApiKey", "Application", "ExternalSecret", "Kustomization", "WebhookEndpoint"}


def test_the_page_shows_every_tool() -> None:
    """Each block is YAML, and together they show Argo CD, Flux, Kustomize and external-secrets."""
    documents = [document for block in BLOCKS for document in yaml.safe_load_all(block)]
    assert {document["kind"] for document in documents if "kind" in document} == KINDS


def test_the_api_server_accepts_the_objects_of_the_page(kubectl: Kubectl) -> None:
    """The endpoint with its own signing secret and the rotated key fit the CRDs of this version."""
    parts = [part for block in BLOCKS for part in block.split("---\n")]
    documents = [part for part in parts if re.search(r"kind: (WebhookEndpoint|ApiKey)\nmetadata", part)]
    assert len(documents) == 2
    kubectl("create", "namespace", "acme")
    try:
        kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin="---\n".join(documents))
    finally:
        kubectl("delete", "namespace", "acme", "--wait=false")


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """Return a folder with the page's kustomization and patch over the examples."""
    base, overlay = tmp_path / "base", tmp_path / "overlay"
    shutil.copytree(EXAMPLES, base, ignore=shutil.ignore_patterns("gitops"))
    resources = [path.name for path in sorted(base.glob("*.yaml"))]
    (base / "kustomization.yaml").write_text(yaml.safe_dump({"resources": resources}))
    overlay.mkdir()
    shutil.copy(EXAMPLES / "gitops" / "kustomizeconfig.yaml", overlay)
    (kustomization,) = [block for block in BLOCKS if "kustomize.config.k8s.io" in block]
    (patches,) = [block for block in BLOCKS if block.startswith("patches:")]
    (overlay / "kustomization.yaml").write_text(kustomization + patches)
    return overlay


def test_kustomize_builds_the_overlay_of_the_page(kubectl: Kubectl, overlay: Path) -> None:
    """The suffix reaches the references between objects, and the patch the URL."""
    objects = list(yaml.safe_load_all(kubectl("kustomize", str(overlay)).stdout))
    (project,) = [document for document in objects if document["kind"] == "Project"]
    endpoints = {
        manifest["metadata"]["name"]: manifest["spec"] for manifest in objects if manifest["kind"] == "WebhookEndpoint"
    }
    assert project["metadata"]["name"] == "billing-staging"
    assert endpoints["orders-staging"]["url"] == "https://staging.example.com/hooks"
    assert {spec["projectRef"]["name"] for spec in endpoints.values()} == {"billing-staging"}
