"""The demo, as `make demo ONCE=1` runs it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hookwright_dev.cluster.assets import Assets

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_tells_its_story_and_every_claim_holds(assets: Assets, tmp_path: Path) -> None:
    """The demo verifies each of its claims, from YAML to signed deliveries and /v1, and exits with 0."""
    folder = tmp_path / "dev"
    output = subprocess.run(
        [sys.executable, "-m", "hookwright_dev", "demo", "--once"],
        cwd=ROOT,
        env={**os.environ, "HOOKWRIGHT_DEV_FOLDER": str(folder)},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert output.returncode == 0, output.stdout + output.stderr
    assert re.search(r"All \d+ claims were verified", output.stdout)
    assert assets.kubectl.exists()
    assert not (folder / "env").exists()
