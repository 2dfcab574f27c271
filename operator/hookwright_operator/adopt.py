"""``hookwright-adopt``: transfer a database to another installation; also identify this installation.

The command only uses the database, so it also runs when no API server can be reached.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import structlog

from hookwright_operator.settings import OperatorSettings
from hookwright_operator.store.database_owner import Installation, hand_over
from hookwright_runtime.errors import HookwrightError, KubeError, KubeUnavailable
from hookwright_runtime.kubernetes import KubernetesClient

log = structlog.get_logger(__name__)

_CLUSTER: Final = "/api/v1/namespaces/kube-system"
_RETRY_SECONDS: Final = 1.0


async def this_installation(kube: KubernetesClient, namespace: str, stop: asyncio.Event) -> Installation | None:
    """Return which installation this process belongs to; None if the process ends before the API server answers.

    Args:
        kube: used to read the uid of namespace kube-system, which identifies the cluster.
        namespace: the installation's own namespace.
        stop: set when the process must end.

    Raises:
        KubeError: the API server refuses the request.
    """
    while not stop.is_set():
        try:
            body = await kube.get(_CLUSTER)
            return Installation(body["metadata"]["uid"], namespace)
        except KubeError as error:
            # A new API server creates the namespace a moment after it starts.
            if not isinstance(error, KubeUnavailable) and error.status != 404:
                raise _refused(error) from None
            log.warning("API server unavailable, waiting to identify the cluster", error=str(error))
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _RETRY_SECONDS)
    return None


def _refused(error: KubeError) -> KubeError:
    if error.status != 403:
        return error
    return KubeError(
        "the operator may not read namespace kube-system, whose uid identifies the cluster that the database belongs "
        "to: grant its ServiceAccount the verb get on the resource namespaces with resourceNames [kube-system] by a "
        f"ClusterRole ({error})",
        status=error.status,
        reason=error.reason,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="hookwright-adopt",
        description="Transfer the database of HOOKWRIGHT_DATABASE_URL to another installation. An installation is "
        "written <uid of namespace kube-system>/<namespace>; a refused operator logs this command with both.",
    )
    parser.add_argument("--from", dest="previous", required=True, metavar="INSTALLATION", help="the current owner")
    parser.add_argument("--to", dest="following", required=True, metavar="INSTALLATION", help="the new owner")
    options = parser.parse_args(arguments)
    try:
        previous, following = Installation.parse(options.previous), Installation.parse(options.following)
        asyncio.run(
            hand_over(
                OperatorSettings.load().database_url, previous, following, clock=lambda: time.time_ns() // 1_000_000
            )
        )
    except (ValueError, HookwrightError) as error:
        sys.stderr.write(f"hookwright-adopt: {error}\n")
        return 1
    sys.stdout.write(f"the database belongs to {following}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
