"""The network policies of the chart: the addresses that pods can reach, checked packet by packet."""

from collections.abc import Iterator
from ipaddress import IPv4Network, ip_address, ip_network
from typing import Any

import pytest
import yaml
from support.chart_rendering import CHART, Chart, Object, golden, named, parsed

from hookwright_dev.cluster.kubectl import Cluster
from hookwright_operator.delivery.http.special_ranges import special_networks

SLICE = ("endpointslice", "kubernetes", "-n", "default")


def egress(objects: list[Object], component: str, *, name: str = "hookwright") -> list[Any] | None:
    """Return the egress rules of a component; None if its egress is not restricted."""
    spec = named(objects, "NetworkPolicy", f"{name}-{component}")["spec"]
    assert ("Egress" in spec["policyTypes"]) is ("egress" in spec)
    rules: list[Any] | None = spec.get("egress")
    return rules


def reaches(rules: list[Any] | None, address: str, port: int, protocol: str = "TCP") -> bool:
    """Return whether the rules allow one packet."""
    return rules is None or any(
        any(one.get("protocol") == protocol and one.get("port", port) == port for one in rule["ports"])
        and ("to" not in rule or any(_holds(peer, address) for peer in rule["to"]))
        for rule in rules
    )


def _holds(peer: Any, address: str) -> bool:
    block = peer.get("ipBlock")
    return (
        block is not None
        and ip_address(address) in ip_network(block["cidr"])
        and not any(ip_address(address) in ip_network(network) for network in block.get("except", ()))
    )


@pytest.mark.parametrize("layout", ["default", "replicas"])
def test_no_special_range_that_the_guard_refuses_is_reached_by_a_delivery(layout: str) -> None:
    """The first and the last address of each range are not reachable, at a port that is not the API server's."""
    rules = egress(golden(layout), "operator")
    addresses = [
        str(address)
        for network in special_networks()
        for address in (network[0], network[-1])
        if reaches(rules, str(address), 8080)
    ]
    # The well-known NAT64 prefix leads to public IPv4 addresses; its special ones are refused one by one.
    assert addresses == []
    for network in special_networks():
        if isinstance(network, IPv4Network):
            assert not reaches(rules, str(ip_address("64:ff9b::") + int(network[-1])), 8080), network


def test_public_receivers_are_reached_at_every_port() -> None:
    """Public receivers are reachable over IPv4, IPv6, and IPv4 behind NAT64."""
    rules = egress(golden("default"), "operator")
    for address in ("93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::5db8:d70e"):
        for port in (80, 443, 8443):
            assert reaches(rules, address, port), (address, port)


@pytest.mark.parametrize(
    ("values", "restricted"),
    [
        pytest.param({}, {"operator", "api"}, id="as it is"),
        pytest.param({"settings": {"allowedNetworks": ["10.0.0.0/8"]}}, {"api"}, id="private receivers are allowed"),
        pytest.param({"settings": {"allowedHosts": ["svc.cluster.local"]}}, {"api"}, id="private hosts are allowed"),
        pytest.param({"networkPolicy": {"egress": {"enabled": False}}}, set(), id="off"),
        pytest.param({"networkPolicy": {"egress": {"enabled": True}}}, {"operator", "api"}, id="on"),
    ],
)
def test_the_wall_stands_unless_private_receivers_are_allowed(
    chart: Chart, values: Object, restricted: set[str]
) -> None:
    """`auto` follows the settings; true and false override them."""
    objects = chart.objects(values)
    assert {component for component in ("operator", "api") if egress(objects, component) is not None} == restricted


def test_allowed_and_denied_networks_and_more_rules_are_in_the_wall(chart: Chart) -> None:
    """With egress on, the network policies apply the settings of the guard too, and the rules of two values."""
    rule = {"ports": [{"port": 8080, "protocol": "TCP"}], "to": [{"ipBlock": {"cidr": "10.9.0.0/16"}}]}
    values = {
        "networkPolicy": {"egress": {"enabled": True, "operatorTo": [rule], "apiTo": [rule]}},
        "settings": {
            "allowedNetworks": ["10.1.0.0/16", "fd00::7"],
            "deniedNetworks": ["93.184.215.14", "2606:2800::/32", "fd00::/8"],
        },
    }
    objects = chart.objects(values)
    for component in ("operator", "api"):
        assert reaches(egress(objects, component), "10.9.0.1", 8080)
        assert not reaches(egress(objects, component), "10.8.0.1", 8080)
    rules = egress(objects, "operator")
    assert reaches(rules, "10.1.2.3", 8080)
    assert reaches(rules, "fd00::7", 8080)
    for address in ("10.2.0.1", "fd00::8", "93.184.215.14", "2606:2800::1"):
        assert not reaches(rules, address, 8080), address


def test_with_a_proxy_only_it_and_its_exceptions_are_reached(chart: Chart) -> None:
    """The port follows from the URL, or from a value if the URL is in a Secret."""
    exceptions = {"proxyExceptions": ["192.0.2.0/24", "2001:db8::7", "internal.example.com"]}
    proxy_peer = [{"ipBlock": {"cidr": "10.4.0.0/16"}}]
    by_secret = {
        "settings": exceptions,
        "egressProxy": {"existingSecret": {"name": "proxy"}},
        "networkPolicy": {"egress": {"proxyPorts": [3129], "proxyTo": proxy_peer}},
    }
    by_url = {"settings": {**exceptions, "proxyUrl": "http://proxy:3129"}, "networkPolicy": by_secret["networkPolicy"]}
    for values in (by_secret, by_url):
        rules = egress(chart.objects(values), "operator")
        for address, port, is_open in (
            ("10.4.0.1", 3129, True),
            ("10.5.0.1", 3129, False),
            ("192.0.2.9", 8443, True),
            ("2001:db8::7", 8443, True),
            ("93.184.215.14", 8443, False),
        ):
            assert reaches(rules, address, port) is is_open, address


def test_by_default_private_addresses_keep_the_ports_of_what_the_operator_needs() -> None:
    """An ipBlock cannot select API server, DNS and database, so their ports stay open unless they are named."""
    usual, tight = egress(golden("separate"), "delivery"), egress(golden("replicas"), "operator")
    for address in ("10.3.0.1", "169.254.169.254"):
        for port in (53, 443, 5353, 5432, 6443):
            assert reaches(usual, address, port), port
            assert not reaches(tight, address, port), port
        for port in (22, 80, 2379, 6379, 8080, 9090, 10250):
            assert not reaches(usual, address, port), port
    assert reaches(tight, "10.96.0.1", 443)
    assert reaches(tight, "10.96.0.1", 53, "UDP")
    assert reaches(tight, "10.20.0.5", 5432)


def test_on_sqlite_no_database_port_is_open() -> None:
    """There is no database server."""
    assert not reaches(egress(golden("default"), "operator"), "10.3.0.1", 5432)


@pytest.mark.parametrize(
    ("settings", "ports"),
    [
        pytest.param(
            {
                "databaseUrl": "postgresql://user@db:6432/hooks",
                "traces": "http://otel-collector:4318",
                "rateLimitUrl": "redis://redis:6380/0",
                "operatorUrl": "http://hooks.other:8081",
            },
            {"operator": {6432, 4318}, "api": {6380, 8081}},
            id="other ports",
        ),
        pytest.param(
            {
                "databaseUrl": "postgresql://user@db/hooks",
                "traces": "http://otel-collector/v1",
                "rateLimitUrl": "valkey://redis",
            },
            {"operator": {5432, 80}, "api": {6379}},
            id="usual ports",
        ),
    ],
)
def test_servers_in_the_settings_are_reached(chart: Chart, settings: Object, ports: dict[str, set[int]]) -> None:
    """The ports follow from the URLs."""
    objects = chart.objects({"settings": settings, "networkPolicy": {"egress": {"enabled": True}}})
    others = {80, 4318, 5432, 6379, 6380, 6432, 8081, 9999}
    for component, expected in ports.items():
        assert {port for port in others if reaches(egress(objects, component), "10.3.0.1", port)} == expected


def test_pods_that_only_reconcile_reach_no_receiver() -> None:
    """If delivery is separate, the receivers' rule applies to the pods that deliver and test."""
    objects = golden("separate")
    assert reaches(egress(objects, "delivery"), "93.184.215.14", 8443)
    assert not reaches(egress(objects, "operator"), "93.184.215.14", 8443)
    assert reaches(egress(objects, "operator"), "10.3.0.1", 6443)


@pytest.fixture
def api_server_port(control_plane: Cluster) -> Iterator[int]:
    """Yield the port of the API servers that the cluster shows; on loopback an API server does not show itself."""
    result = control_plane.kubectl("get", *SLICE, "-o", "jsonpath={.ports[*].port}", check=False)
    if result.returncode == 0:
        yield int(result.stdout)
        return
    endpoint_slice = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "kubernetes", "namespace": "default"},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.3.0.9"]}],
        "ports": [{"name": "https", "port": 6444, "protocol": "TCP"}],
    }
    control_plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump(endpoint_slice))
    yield 6444
    control_plane.kubectl("delete", *SLICE)


def test_the_ports_of_the_api_server_come_from_the_cluster_that_helm_installs_into(
    chart: Chart, control_plane: Cluster, api_server_port: int
) -> None:
    """Port 443 is then open only to the Service kubernetes, unless the API servers themselves listen on it."""
    service = control_plane.kubectl("get", "service", "kubernetes", "-n", "default", "-o", "jsonpath={.spec.clusterIP}")
    connection = ("--kubeconfig", str(control_plane.kubeconfig), "--dry-run=server")
    # The cluster may have the CRDs and the roles of other tests, and another release must not adopt them.
    values = {"crds": {"enabled": False}, "fullnameOverride": "wall"}
    result = chart.run("template", "wall", str(CHART), *connection, values=values)
    assert result.returncode == 0, result.stderr
    rules = egress(parsed(result.stdout), "operator", name="wall")
    assert reaches(rules, "10.3.0.1", api_server_port)
    assert reaches(rules, service.stdout, 443)
    assert reaches(rules, "10.3.0.1", 443) is (api_server_port == 443)
