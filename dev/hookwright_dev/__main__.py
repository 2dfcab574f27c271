"""Command line ``python -m hookwright_dev up`` and ``python -m hookwright_dev demo [--once]``; ``make`` calls both."""

import argparse
import asyncio
import signal
import sys
import threading

from hookwright_dev.cluster import stack
from hookwright_dev.demo import demo
from hookwright_dev.errors import DevError


def main() -> int:
    """Run one command; return the exit code."""
    parser = argparse.ArgumentParser(prog="hookwright_dev", description="Hookwright on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="start control plane, operator and API, and stay up until Ctrl-C")
    story = commands.add_parser("demo", help="the same, and show the main scenario step by step")
    story.add_argument(
        "--once", action="store_true", help="end after the scenario, with exit code 0 if all was verified"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if options.command == "demo":
            return asyncio.run(demo.tell(once=options.once))
        return _up()
    except DevError as error:
        print(f"\n{options.command} failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped")
        return 0


def _up() -> int:
    with stack.running({}) as running:
        running.write_env()
        print(stack_hint(stack.console_hint(running)), flush=True)
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        keeper = stack.Keeper(running)
        while not stop.wait(0.5):
            keeper.look()
        print("\nstopping", flush=True)
    return 0


def stack_hint(console: str) -> str:
    """Return the hint about a running stack; ``console`` is that of its console."""
    return (
        f"Hookwright is up. In another shell:\n\n    . {stack.shown(stack.ENV_FILE)}\n"
        f"    {stack.APPLY_EXAMPLES}\n    kubectl get hookwright -A\n\n{console}\n\nCtrl-C stops it."
    )


if __name__ == "__main__":
    raise SystemExit(main())
