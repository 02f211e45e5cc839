"""What the tests share: the command, and routers that are simulated in a moment."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Callable, List

import pytest
from hypothesis import settings as hypothesis_settings

import rxlane

# What is found by chance belongs into a soak, and as an example into the test; what lands must not hang on it.
hypothesis_settings.register_profile("same each time", derandomize=True)
hypothesis_settings.load_profile("same each time")

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def command() -> Callable[..., str]:
    """Runs the command `rxlane-lab` and gives what it prints. RXLANE_LAB names it; `make test-python` does."""
    path = os.environ.get("RXLANE_LAB")
    if not path:
        pytest.skip("RXLANE_LAB is not set: it names the command that the package is compared with, as target/debug/rxlane-lab")

    def run(*arguments: str, cwd: Any = None) -> str:
        done = subprocess.run([path, *arguments], capture_output=True, text=True, cwd=cwd)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def short() -> rxlane.Scenario:
    return rxlane.Scenario({"seconds": 0.01, "warmup_s": 0.001, "traffic.pps": 1.6e6, "traffic.rt_ratio": 0.3})


def settings(**keys: Any) -> List[str]:
    """`--set` options of the command."""
    return [text for key, value in keys.items() for text in ("--set", f"{key}={value}")]
