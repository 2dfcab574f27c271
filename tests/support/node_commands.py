"""The program behind ``kubectl`` and ``curl`` of the tests of the pages, on a cluster without nodes.

Every command goes to the real kubectl. Four subcommands need a kubelet: logs, exec, port-forward, top. The real
kubectl runs them too, so it checks options and objects, and may fail only because there is no kubelet. Then this
program does what the kubelet would do. ``curl`` connects to the process behind a forwarded port.

Usage: ``python node_commands.py <file with the stage> kubectl|curl <arguments>``
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

NO_KUBELET: Final = ("does not have a host assigned", "Metrics API not available")
OPTIONS_WITH_VALUE: Final = ("-n", "--namespace")
PATIENCE: Final = 20.0
"""Seconds that curl waits for a port-forward in the background."""


def main(stage: dict[str, Any], program: str, arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    if program == "curl":
        return _curl(stage, arguments)
    doing = {"logs": _logs, "exec": _exec, "port-forward": _port_forward, "top": lambda *_: 0}.get(_command(arguments))
    if doing is None:
        return subprocess.run([stage["kubectl"], *arguments], check=False).returncode
    asked = subprocess.run(
        [stage["kubectl"], *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if asked.returncode != 0 and not any(words in asked.stderr for words in NO_KUBELET):
        sys.stderr.write(asked.stderr)
        return asked.returncode
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


def _logs(stage: dict[str, Any], arguments: list[str]) -> int:
    lines = Path(stage[_component(arguments)]["log"]).read_text().splitlines(keepends=True)
    tail = next((int(word.partition("=")[2]) for word in arguments if word.startswith("--tail=")), 0)
    prefix = "[pod/hookwright-0/hookwright] " if "--prefix" in arguments else ""
    sys.stdout.write("".join(prefix + line for line in lines[-tail:]))
    return 0


def _exec(stage: dict[str, Any], arguments: list[str]) -> int:
    """Run the command here, with the folder, the process and the receiver of this machine instead of the pod's."""
    process = stage[_component(arguments)]
    health = process["ports"]["9090" if _component(arguments) == "operator" else "9091"]
    command = arguments[arguments.index("--") + 1 :]
    command[0] = str(Path(stage["bin"]) / command[0])
    here = {
        "/var/lib/hookwright": process["folder"],
        "/proc/1/fd": f"/proc/{Path(process['pid']).read_text().strip()}/fd",
        "'example.com', 443": f"'127.0.0.1', {health}",
    }
    for old, new in here.items():
        command = [word.replace(old, new) for word in command]
    return subprocess.run(command, env={**os.environ, **process["env"]}, check=False).returncode


def _port_forward(stage: dict[str, Any], arguments: list[str]) -> int:
    port = next(word for word in arguments if re.fullmatch(r"\d+(:\d+)?", word))
    local, _, remote = port.partition(":")
    target = stage[_component(arguments)]["ports"][remote or local]
    (Path(stage["forwards"]) / local).write_text(str(target))
    return 0


def _curl(stage: dict[str, Any], arguments: list[str]) -> int:
    for index, word in enumerate(arguments):
        if found := re.search(r"localhost:(\d+)", word):
            forward = Path(stage["forwards"]) / found[1]
            deadline = time.monotonic() + PATIENCE
            while not forward.exists():
                if time.monotonic() > deadline:
                    sys.stderr.write(f"no port-forward to {found[1]}\n")
                    return 7
                time.sleep(0.05)
            arguments[index] = word.replace(found[0], f"127.0.0.1:{forward.read_text()}")
    return subprocess.run([stage["curl"], *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(json.loads(Path(sys.argv[1]).read_text()), sys.argv[2], sys.argv[3:]))
