"""Values that other charts have too: images, extra parts of pods, certificates, OpenShift, helm test."""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml
from chart.test_rendering import EXTRAS
from support.chart_rendering import (
    CHART,
    POSTGRES,
    Chart,
    Object,
    container,
    environment,
    golden,
    named,
    of_kind,
    parsed,
)

from hookwright_dev.cluster.stack import ROOT

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("values", "image"),
    [
        ({}, "registry.example.com/hookwright:0.1.0"),
        ({"image": {"tag": "1.2.3"}}, "registry.example.com/hookwright:1.2.3"),
        ({"image": {"registry": "a.example.com", "repository": "hooks"}}, "a.example.com/hooks:0.1.0"),
        (
            {
                "image": {"registry": "a.example.com", "repository": "hooks"},
                "global": {"imageRegistry": "b.example.com:5000/mirror/"},
            },
            "b.example.com:5000/mirror/hooks:0.1.0",
        ),
        ({"image": {"tag": "1.2.3", "digest": DIGEST}}, f"registry.example.com/hookwright@{DIGEST}"),
        ({"image": {"tag": DIGEST}}, f"registry.example.com/hookwright@{DIGEST}"),
    ],
)
def test_every_pod_has_the_chosen_image(chart: Chart, values: Object, image: str) -> None:
    """Registry, tag and digest apply to the Deployments, the uninstall Job and the test pod."""
    objects = chart.objects(values)
    pods = [document["spec"]["template"]["spec"] for document in of_kind(objects, "Deployment", "Job")]
    pods += [document["spec"] for document in of_kind(objects, "Pod")]
    assert len(pods) == 4
    assert {document["image"] for pod in pods for document in pod["containers"]} == {image}


def test_the_extra_parts_are_in_the_pods(chart: Chart) -> None:
    """Volumes, mounts, containers and variables are added to the chart's own; delivery has the operator's values."""
    objects = chart.objects({**POSTGRES, "operator": EXTRAS, "api": EXTRAS, "delivery": {"separate": True}})
    for component in ("operator", "delivery", "api"):
        document = named(objects, "Deployment", f"hookwright-{component}")
        deployment = document["spec"]
        pod = deployment["template"]["spec"]
        identity, added = pod["containers"]
        assert document["metadata"]["annotations"] == EXTRAS["deploymentAnnotations"]
        for name in ("revisionHistoryLimit", "strategy"):
            assert deployment[name] == EXTRAS[name]
        assert (identity["name"], added) == (component, EXTRAS["extraContainers"][0])
        assert identity["envFrom"] == EXTRAS["envFrom"]
        assert EXTRAS["extraVolumeMounts"][0] in identity["volumeMounts"]
        assert EXTRAS["extraVolumes"][0] in pod["volumes"]
        for name in ("dnsConfig", "hostAliases", "runtimeClassName", "initContainers"):
            assert pod[name] == EXTRAS[name]
        assert {mount["name"] for mount in identity["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


def test_the_own_certificates_are_mounted_where_they_are_used(chart: Chart) -> None:
    """OpenSSL reads the authorities that SSL_CERT_FILE names, and the image's. The API has no key of the database."""
    values = {
        "caBundle": {"configMap": "authorities", "key": "bundle.pem"},
        "database": {"existingSecret": {"name": "store"}, "certificates": {"secret": "store-tls"}},
        "delivery": {"separate": True},
    }
    objects = chart.objects(values)
    for component in ("operator", "delivery", "api"):
        assert environment(objects, component)["SSL_CERT_FILE"] == "/etc/hookwright/ca/bundle.pem"
        mounts = container(objects, component)["volumeMounts"]
        assert {"name": "ca-bundle", "mountPath": "/etc/hookwright/ca", "readOnly": True} in mounts
        assert ("/etc/hookwright/database" in {mount["mountPath"] for mount in mounts}) is (component != "api")


@pytest.mark.parametrize(
    ("values", "arguments", "fixed"),
    [
        ({}, ("--api-versions", "security.openshift.io/v1"), False),
        ({"openshift": True}, (), False),
        ({"openshift": False}, ("--api-versions", "security.openshift.io/v1"), True),
    ],
)
def test_openshift_chooses_the_user_of_the_pods(
    chart: Chart, values: Object, arguments: tuple[str, ...], *, fixed: bool
) -> None:
    """OpenShift's restricted-v2 refuses pods with a fixed user or group; the rest of the context stays."""
    result = chart.run("template", "hookwright", str(CHART), *arguments, values=values)
    assert result.returncode == 0, result.stderr
    objects = parsed(result.stdout)
    pods = [document["spec"]["template"]["spec"] for document in of_kind(objects, "Deployment", "Job")]
    pods += [document["spec"] for document in of_kind(objects, "Pod")]
    for pod in pods:
        context = pod["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert bool({"runAsUser", "runAsGroup", "fsGroup"} & context.keys()) is fixed


def test_every_pod_is_scraped_once_by_a_pod_monitor() -> None:
    """Each PodMonitor selects the pods of one Deployment, and names a port of its container."""
    objects = golden("replicas")
    selection = []
    for monitor in of_kind(objects, "PodMonitor"):
        (deployment,) = [
            document
            for document in of_kind(objects, "Deployment")
            if monitor["spec"]["selector"] == {"matchLabels": document["spec"]["selector"]["matchLabels"]}
        ]
        (identity,) = deployment["spec"]["template"]["spec"]["containers"]
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        assert endpoint["port"] in {port["name"] for port in identity["ports"]}
        selection.append(deployment["metadata"]["name"])
    assert sorted(selection) == sorted(document["metadata"]["name"] for document in of_kind(objects, "Deployment"))


@contextmanager
def answering(status: int) -> Iterator[str]:
    """Yield the URL of a server that answers each request with a status."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"store: away")

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/readyz"
        server.shutdown()
        thread.join()


def _test_pod(layout: str) -> list[str]:
    (pod,) = of_kind(golden(layout), "Pod")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    arguments: list[str] = pod["spec"]["containers"][0]["args"]
    return arguments


def test_helm_test_asks_every_part_of_the_installation() -> None:
    """Its URLs name existing Services and ports, and the policies allow its pod."""
    objects = golden("separate")
    addresses = {
        tuple(url.removeprefix("http://").removesuffix("/readyz").split(":")) for url in _test_pod("separate")[2:]
    }
    service_ports = {
        (service["metadata"]["name"], str(port["port"]))
        for service in of_kind(objects, "Service")
        for port in service["spec"]["ports"]
        if port["name"] == "metrics"
    }
    assert addresses == service_ports
    (pod,) = of_kind(objects, "Pod")
    for policy in of_kind(objects, "NetworkPolicy"):
        (rule,) = [item for item in policy["spec"]["ingress"] if item["ports"][0]["port"] == "health"]
        peers = [peer["podSelector"]["matchLabels"].items() for peer in rule["from"] if "podSelector" in peer]
        assert any(labels <= pod["metadata"]["labels"].items() for labels in peers)


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_helm_test_fails_if_a_part_is_not_ready(status: int, code: int) -> None:
    """The program prints the reason that the part gives."""
    program = _test_pod("default")[0]
    with answering(200) as good, answering(status) as context:
        result = subprocess.run(
            [sys.executable, "-c", program, "0", good, context], capture_output=True, text=True, timeout=30, check=False
        )
    assert result.returncode == code, result.stderr
    assert f"{good}: 200\n" in result.stdout
    assert f"{context}: {status}" in result.stdout
    assert ("store: away" in result.stdout) is (status == 503)


def test_two_installations_have_no_object_in_common(chart: Chart) -> None:
    """With different names and namespaces they share only the CRDs, which the second one leaves out."""
    first = {"settings": {"watchNamespaces": ["acme"]}}
    second = {"settings": {"watchNamespaces": ["globex"]}, "crds": {"enabled": False}}
    names = []
    for release, namespace, values in (("hookwright", "hooks", first), ("hookwright-eu", "hooks-eu", second)):
        result = chart.run("template", release, str(CHART), "--namespace", namespace, values=values)
        objects = parsed(result.stdout)
        names.append(
            {
                (document["kind"], document["metadata"].get("namespace"), document["metadata"]["name"])
                for document in objects
            }
        )
    assert names[0]
    assert not names[0] & names[1]


def test_the_catalogue_lists_the_kinds(chart: Chart) -> None:
    """Artifact Hub shows the kinds of the annotation, and the chart installs the same."""
    annotations = yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]
    crds = {
        (item["name"], item["kind"], item["version"]) for item in yaml.safe_load(annotations["artifacthub.io/crds"])
    }
    assert crds == {
        (crd["metadata"]["name"], crd["spec"]["names"]["kind"], version["name"])
        for crd in of_kind(chart.objects(), "CustomResourceDefinition")
        for version in crd["spec"]["versions"]
    }


def test_the_notes_create_objects_only_where_the_operator_serves_them(chart: Chart) -> None:
    """With chosen namespaces, the printed commands use the first one and do not create it."""
    command = ("install", "hookwright", str(CHART), "--namespace", "hookwright-system", "--dry-run=client")
    notes = chart.run(*command, values={"settings": {"watchNamespaces": ["globex"]}}).stdout.partition("NOTES:")[2]
    assert "namespace: globex}" in notes
    assert "acme" not in notes
    assert "kubectl create namespace" not in notes
    assert "kubectl create namespace acme" in chart.run(*command).stdout


def test_the_printed_port_forwards_name_a_port_of_the_service() -> None:
    """A reader forwards a port that the Service of the API has."""
    ports = {document["port"] for document in named(golden("default"), "Service", "hookwright-api")["spec"]["ports"]}
    texts = [page.read_text() for page in (ROOT / "docs").glob("*.md")]
    output = [port for text in texts for port in re.findall(r"port-forward service/hookwright-api \d+:(\d+)", text)]
    assert output
    assert {int(port) for port in output} <= ports


@pytest.mark.parametrize("name", ["default", "separate"])
def test_temporary_files_have_a_bound(name: str) -> None:
    """A process that fills ``/tmp`` loses its own pod, and not the other pods of its node."""
    pods = [document["spec"]["template"]["spec"] for document in of_kind(golden(name), "Deployment")]
    temporary = [volume["emptyDir"] for pod in pods for volume in pod["volumes"] if volume["name"] == "tmp"]
    assert len(temporary) == len(pods) > 1
    assert all(volume["sizeLimit"] == "64Mi" for volume in temporary)
