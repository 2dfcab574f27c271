"""Starts the operator: settings, logs, event loop; the rest is `process`."""

import sys

import structlog
import uvloop

from hookwright_operator import logs, settings
from hookwright_operator.errors import HookwrightError
from hookwright_operator.process import run

log = structlog.get_logger(__name__)


def main() -> int:
    """Run the operator; return the process's exit code."""
    try:
        chosen = settings.load()
    except HookwrightError as error:
        sys.stderr.write(f"hookwright-operator: {error}\n")
        return 2
    logs.configure(form=chosen.log_format, level=chosen.log_level)
    try:
        uvloop.run(run(chosen))
    except HookwrightError as error:
        log.error("cannot run", error=str(error))  # noqa: TRY400 - the sentence says all, a traceback nothing
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
