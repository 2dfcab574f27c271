"""The page docs/performance.md shows the last run, its machine, its marks and how to repeat it."""

from datetime import UTC, datetime
from importlib.resources import files

from hookwright_dev.bench.measures import CPU, MILLISECONDS, SHARE, Measure
from hookwright_dev.bench.page import document
from hookwright_dev.bench.results import Results

RESULTS = Results(
    began=datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC),
    seconds=312.0,
    command="make bench",
    machine={"CPU": "2 cores, some processor"},
    measures=(
        Measure("throughput.1.share", "deliveries/s, 1 endpoint", 9.5, SHARE),
        Measure("throughput.1.cpu", "CPU of everything, 1 endpoint", 0.5, CPU),
        Measure("throughput.1.direct", "direct, 1 endpoint", 30_000.0, "/s"),
        Measure("postgres.1.1.share", "deliveries/s, PostgreSQL, 1 replica, 1 endpoint", 6.0, SHARE),
        Measure("postgres.2.latency.p50", "post → arrival at 50/s, PostgreSQL, 2 replicas, p50", 3.0, MILLISECONDS),
    ),
    faults={},
    noise={"throughput": 0.04},
)
TEMPLATE = (files("hookwright_dev.bench") / "page.md").read_text()


def test_the_page_tells_how_many_marks_are_met_and_which_are_missed() -> None:
    """The summary names the missed marks."""
    page = document(TEMPLATE, RESULTS, ("throughput", "latency"))
    assert "1 of 2 marks are met in this run. Missed: CPU of everything, 1 endpoint." in page
    assert "| deliveries/s, 1 endpoint | 9.50 | % of direct | ≥ 7 | met |" in page
    assert "| direct, 1 endpoint | 30,000 | /s |  |  |" in page


def test_the_page_tells_machine_noise_date_and_command() -> None:
    """Figures without these facts cannot be repeated."""
    page = document(TEMPLATE, RESULTS, ("throughput", "latency"))
    for words in ("- CPU: 2 cores, some processor", "throughput 0.04", "2026-05-04 03:02 UTC", "`make bench`"):
        assert words in page
    assert "$" not in page
