"""Pure: figures of other webhook senders, measured once in the same way on a machine with two cores.

Loader, receiver and each server's databases and queues ran on the same machine. The load was 315-byte events, 16 posts
at a time, with medians of three and default settings. Throughput is a share of the posts that the same loader sent
directly to the receiver.
"""

from typing import Final

NAMES: Final = ("Svix (PostgreSQL, Redis)", "Outpost (Redis, RabbitMQ, PostgreSQL)", "Convoy (PostgreSQL, Redis)")

FIGURES: Final[tuple[tuple[str, str, tuple[str, str, str]], ...]] = (
    ("throughput.1.share", "1 endpoint, % of direct", ("3.4", "5.5", "1.0")),
    ("throughput.100.share", "100 endpoints, % of direct", ("3.2", "4.3", "1.0")),
    ("throughput.fan.share", "each event to 10 endpoints, % of direct", ("9.4", "6.5", "1.9")),
    ("throughput.1.cpu", "CPU-s per 1,000 deliveries, everything, 1 endpoint", ("2.26", "1.34", "8.13")),
    ("throughput.1.cpu_operator", "the same, the server alone", ("1.09", "0.74", "3.81")),
    ("throughput.fan.cpu", "CPU-s per 1,000 deliveries, everything, fan-out of 10", ("0.70", "1.03", "3.67")),
    ("throughput.fan.cpu_operator", "the same, the server alone", ("0.33", "0.55", "1.51")),
    ("latency.p50", "post → arrival at 50/s, p50 ms", ("4.1", "26.9", "719")),
    ("latency.p99", "post → arrival at 50/s, p99 ms", ("11.0", "55.2", "1,726")),
    ("hang.all.p99", "one of ten hangs, each event to all: p99 ms of the others", ("5,244", "27,430", "77,266")),
    ("hang.one.p99", "one of ten hangs, each event to one: p99 ms of the others", ("8.0", "55.4", "1,751")),
    ("memory.idle", "memory of the server, idle, MiB", ("43", "69", "143")),
    ("memory.after", "memory of the server, after load, MiB", ("190", "107", "171")),
)
"""Hookwright's figure by its key, its description, and the peers' figures in the order of their names."""
