"""The program behind ``kubectl``, ``curl`` and ``hookwright`` of the tests of the pages, on a cluster without nodes.

Every command goes to the real kubectl. Two subcommands need what the kubelet of the tests lacks: SPDY for
port-forward, metrics for top. The real kubectl runs them too, so it checks options and objects, and may fail only
because of the kubelet. Then this program does what the kubelet would do. ``curl`` connects to the process behind a
forwarded port. ``hookwright`` is the real program; the host of the pages' ``/v1`` is the API of the tests.

Usage: ``python node_commands.py <file with the stage> kubectl|curl|hookwright <arguments>``
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

NO_KUBELET: Final = ("unsupported HTTP method: POST", "Metrics API not available")
PUBLISHED: Final = "https://hooks.example.com"
"""The address of ``/v1`` in the pages."""
OPTIONS_WITH_VALUE: Final = ("-n", "--namespace")
PATIENCE: Final = 20.0
"""Seconds that curl waits for a port-forward in the background."""


def main(stage: dict[str, Any], program: str, arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    if program == "curl":
        return _curl(stage, arguments)
    if program == "hookwright":
        there = [word.replace(PUBLISHED, stage["api"]["url"]) for word in arguments]
        return subprocess.run([Path(stage["bin"]) / "hookwright", *there], check=False).returncode
    doing = {"port-forward": _port_forward, "top": lambda *_: 0}.get(_command(arguments))
    if doing is None:
        return subprocess.run([stage["kubectl"], *arguments], check=False).returncode
    result = subprocess.run(
        [stage["kubectl"], *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if result.returncode != 0 and not any(words in result.stderr for words in NO_KUBELET):
        sys.stderr.write(result.stderr)
        return result.returncode
    return doing(stage, arguments)


def _command(arguments: list[str]) -> str:
    """Return the subcommand, which follows options such as ``-n acme``."""
    words = iter(arguments)
    for word in words:
        if word in OPTIONS_WITH_VALUE:
            next(words)
        elif not word.startswith("-"):
            return word
    return ""


def _component(arguments: list[str]) -> str:
    return "api" if any(re.search(r"hookwright-api|component=api", word) for word in arguments) else "operator"


def in_the_pod(process: Mapping[str, Any], command: list[str]) -> list[str]:
    """Return a command with the folder, the process and the receiver of this machine instead of the pod's.

    Args:
        process: the process of the pod, as `support.local_kubelet.described` returns it.
        command: as for the pod.
    """
    pid = Path(process["pid"])
    here = {
        "/var/lib/hookwright": process["folder"],
        "/proc/1/fd": f"/proc/{pid.read_text().strip()}/fd" if pid.exists() else "/proc/self/fd",
        "'example.com', 443": f"'127.0.0.1', {process['ports'].get('9090') or process['ports']['9091']}",
    }
    command = [str(Path(sys.executable).with_name(command[0])), *command[1:]]
    for old, new in here.items():
        command = [word.replace(old, new) for word in command]
    return command


def _port_forward(stage: dict[str, Any], arguments: list[str]) -> int:
    port = next(word for word in arguments if re.fullmatch(r"\d+(:\d+)?", word))
    local, _, remote = port.partition(":")
    target = stage[_component(arguments)]["ports"][remote or local]
    (Path(stage["forwards"]) / local).write_text(str(target))
    return 0


def _curl(stage: dict[str, Any], arguments: list[str]) -> int:
    for index, word in enumerate(arguments):
        if match := re.search(r"localhost:(\d+)", word):
            forward = Path(stage["forwards"]) / match[1]
            deadline = time.monotonic() + PATIENCE
            while not forward.exists():
                if time.monotonic() > deadline:
                    sys.stderr.write(f"no port-forward to {match[1]}\n")
                    return 7
                time.sleep(0.05)
            arguments[index] = word.replace(match[0], f"127.0.0.1:{forward.read_text()}")
    return subprocess.run([stage["curl"], *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(json.loads(Path(sys.argv[1]).read_text()), sys.argv[2], sys.argv[3:]))
