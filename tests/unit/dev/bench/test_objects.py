"""The benchmark's objects route each event to its endpoint."""

from hookwright_dev.bench.objects import TYPES, place


def test_every_endpoint_has_a_project_and_type_of_its_own() -> None:
    """One event then goes to one endpoint, for any number of endpoints."""
    places = [place(number) for number in range(10_000)]
    assert len(set(places)) == len(places)
    assert {kind for _, kind in places} == set(TYPES)
