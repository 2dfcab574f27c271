"""The benchmark's objects route each event to its endpoint, and writes are counted by the API server's metrics."""

from hookwright_dev.bench.objects import TYPES, endpoint, place, writes


def test_every_endpoint_has_a_project_and_type_of_its_own() -> None:
    """One event then goes to one endpoint, for any number of endpoints."""
    places = [place(number) for number in range(10_000)]
    assert len(set(places)) == len(places)
    assert {kind for _, kind in places} == set(TYPES)


def test_an_endpoint_names_its_project() -> None:
    """The project becomes a reference; the rest of the spec stays unchanged."""
    made = endpoint("acme", "e-1", project="p-0", url="http://127.0.0.1:1/e/1", events=["delivered"])
    assert made["metadata"] == {"name": "e-1", "namespace": "acme"}
    assert made["spec"] == {
        "projectRef": {"name": "p-0"},
        "url": "http://127.0.0.1:1/e/1",
        "events": ["delivered"],
    }


def test_only_writes_of_our_objects_that_succeeded_are_counted() -> None:
    """Reads, refused writes and the control plane's own leases are no cost of an endpoint."""
    metrics = "\n".join(
        [
            "# HELP apiserver_request_total Counter of apiserver requests",
            _line("APPLY", "webhookendpoints", "status", "200", 5),
            _line("POST", "secrets", "", "201", 3),
            _line("POST", "secrets", "", "409", 2),
            _line("LIST", "secrets", "", "200", 9),
            _line("PUT", "leases", "", "200", 70),
            'apiserver_request_duration_seconds_count{verb="POST",resource="secrets"} 8',
        ]
    )
    assert writes(metrics) == {"APPLY webhookendpoints/status": 5, "POST secrets": 3}


def _line(verb: str, resource: str, subresource: str, code: str, value: int) -> str:
    labels = f'code="{code}",component="apiserver",resource="{resource}",subresource="{subresource}",verb="{verb}"'
    return f"apiserver_request_total{{{labels}}} {value}"
