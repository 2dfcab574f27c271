"""The pages of an installation: their shell blocks run unchanged, except the image's name."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.installing import Installation, image_values

from hookwright_dev.cluster.stack import ROOT

PUBLISHED: Final = "image.repository=registry.example.com/hookwright"
"""The pages' name of the image that the reader has pushed."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A finished block of shell: its output, and the seconds it took."""

    printed: str
    complained: str
    seconds: float


def follow(installation: Installation, block: str, *, stdin: str = "") -> Ran:
    """Run a block in a checkout, with kubectl, helm and hookwright on the PATH; fail if one of its commands fails."""
    image = ",".join(f"image.{name}={value}" for name, value in image_values(installation.image).items())
    folders = [installation.helm, installation.cluster.kubectl_path, Path(sys.executable)]
    programs = [*(program.parent for program in folders), os.environ["PATH"]]
    began = time.monotonic()
    result = subprocess.run(
        [
            "bash",
            "-c",
            f"set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{block.replace(PUBLISHED, image)}",
        ],
        input=stdin,
        cwd=ROOT,
        env={
            **os.environ,
            "KUBECONFIG": str(installation.cluster.kubeconfig),
            "PATH": os.pathsep.join(map(str, programs)),
        },
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert result.returncode == 0, f"{block}\nended with status {result.returncode}:\n{result.stdout}{result.stderr}"
    return Ran(result.stdout, result.stderr, time.monotonic() - began)
