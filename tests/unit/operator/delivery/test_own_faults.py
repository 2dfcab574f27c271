"""Which errors are faults of this process, and which are faults of the receiver."""

import errno
import os
import socket
import ssl

import pytest
from structlog.testing import capture_logs
from support.polling import until

from hookwright_operator.delivery import attempt_runner
from hookwright_operator.delivery.endpoint_queue import EndpointQueue
from hookwright_operator.delivery.http import client
from hookwright_operator.delivery.http.error_messages import (
    AttemptError,
    DeadlineError,
    NoPlaceError,
    TokenServerError,
    own_fault,
)
from hookwright_operator.metrics import OWN_FAULT_REASONS
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Claimed
from hookwright_runtime.errors import RefusedAddressError
from hookwright_runtime.log_bounds import LogBound

OWN = {
    OSError(errno.EMFILE, "Too many open files"): "descriptors",
    OSError(errno.ENFILE, "Too many open files in system"): "descriptors",
    OSError(errno.ENOBUFS, "No buffer space available"): "memory",
    OSError(errno.ENOMEM, "Cannot allocate memory"): "memory",
    MemoryError(): "memory",
    socket.gaierror(socket.EAI_MEMORY, "Memory allocation failure"): "memory",
    OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address"): "ports",
    NoPlaceError("lookups"): "lookups",
    NoPlaceError("namespace_lookups"): "namespace_lookups",
    TokenServerError("token server auth.example.com: HTTP 500"): "token_server",
}
THEIRS = [
    OSError(errno.ECONNREFUSED, "Connection refused"),
    OSError(errno.ENETUNREACH, "Network is unreachable"),
    TimeoutError(errno.ETIMEDOUT, "Connection timed out"),
    socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
    socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
    ssl.SSLError(errno.ENOMEM, "an OpenSSL code that is no errno"),
    RefusedAddressError("10.0.0.1 is a private address"),
    OSError("Multiple exceptions"),
    AttemptError("invalid URL"),
    DeadlineError(),
    ZeroDivisionError(),
]


@pytest.mark.parametrize(("error", "reason"), OWN.items(), ids=repr)
def test_a_lack_before_the_receiver_could_answer_is_not_its_fault(error: Exception, reason: str) -> None:
    """Each fault has a reason that the metric knows."""
    assert own_fault(error) == reason
    assert reason in OWN_FAULT_REASONS


@pytest.mark.parametrize("error", THEIRS, ids=repr)
def test_all_else_counts_as_an_attempt(error: Exception) -> None:
    """Failures of the receiver, its name server or the network are recorded as attempts."""
    assert own_fault(error) == ""


@pytest.mark.parametrize("cause", ["no port", "no route"])
def test_a_missing_address_family_is_no_lack_of_ports(monkeypatch: pytest.MonkeyPatch, cause: str) -> None:
    """Both errors are EADDRNOTAVAIL; a host without IPv6 must not postpone attempts to an endpoint with IPv6 only."""

    def unassignable(connecting: socket.socket, _: object) -> None:
        if connecting.type == socket.SOCK_STREAM or cause == "no route":
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))

    monkeypatch.setattr(socket.socket, "connect", unassignable)
    entries: list[OSError] = []
    with (
        client._Socket(socket.AF_INET, socket.SOCK_STREAM, 0, own_faults=entries) as connecting,
        pytest.raises(OSError) as error,  # noqa: PT011 - judged by its errno
    ):
        connecting.connect(("127.0.0.1", 1))
    assert error.value.errno == (errno.EADDRNOTAVAIL if cause == "no port" else errno.ENETUNREACH)
    assert entries == ([error.value] if cause == "no port" else [])


async def test_the_faults_of_a_second_have_one_line_for_each_reason() -> None:
    """No fault is lost, although no other follows."""
    faults = LogBound(burst=0, rate=0.0, report=attempt_runner._report_own_faults)
    with capture_logs() as logs:
        for reason in ["descriptors"] * 1000 + ["memory"]:
            faults.allow(reason)
        await until(lambda: len(logs) == 2)
    assert [(line["reason"], line["attempts"]) for line in logs] == [("descriptors", 1000), ("memory", 1)]


def test_a_postponed_delivery_is_first_again_and_pauses_grow() -> None:
    """Eight attempts that fail together are one fault; the pause never exceeds five seconds."""
    queue = EndpointQueue(Endpoint("uid-1", "acme", "orders", "billing", "", frozenset(), secrets=("whsec_",)))
    deliveries = [Claimed(str(number), "uid-1", f"m-{number}", "delivered", b"", 0, 0) for number in range(8)]
    queue.ready.append(deliveries[0])
    now, pauses = 100.0, []
    for _ in range(8):
        for delivery in deliveries[1:]:
            queue.postpone(delivery, now)
        pauses.append(queue.pause(now))
        now += queue.pause(now)
    assert pauses == [0.25, 0.5, 1, 2, 4, 5, 5, 5]
    assert queue.ready[0] is deliveries[-1]
    assert queue.ready[-1] is deliveries[0]
