"""The demo tells the truth about what went in and what came out."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pyromq.pipelines.demo import compare


def test_equal_sides_agree() -> None:
    assert compare({"created": (2, 30)}, {"created": (2, 30)})[1]


@pytest.mark.parametrize(
    "received", [{}, {"created": (1, 30)}, {"created": (2, 29)}, {"created": (2, 30), "paid": (1, 1)}]
)
def test_any_difference_is_seen(received: dict[str, tuple[int, int]]) -> None:
    assert not compare({"created": (2, 30)}, received)[1]


@pytest.mark.spark
def test_the_demo_runs_and_both_sides_agree() -> None:
    command = [sys.executable, "-m", "pyromq.pipelines.demo", "--orders", "60"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "what came out is what went in" in done.stdout
