"""The demo tells the truth about what went in and what came out."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import pytest

from pyromq.client.outcomes import ROLLBACK
from pyromq.pipelines.demo import QUICK_CHECKS, compare, tell
from pyromq.pipelines.shop import fates
from pyromq.pipelines.shop_day import Day, Scene
from pyromq.testing import LocalCluster


def test_equal_sides_agree() -> None:
    assert compare({"created": (2, 30)}, {"created": (2, 30)})[1]


@pytest.mark.parametrize(
    "received", [{}, {"created": (1, 30)}, {"created": (2, 29)}, {"created": (2, 30), "paid": (1, 1)}]
)
def test_any_difference_is_seen(received: dict[str, tuple[int, int]]) -> None:
    assert not compare({"created": (2, 30)}, received)[1]


def test_a_consumer_that_saw_too_little_or_too_much_is_seen() -> None:
    assert tell([Scene("a", 2, 2), Scene("b", 0, 0)])[1]
    assert not tell([Scene("a", 2, 2), Scene("b", 1, 0)])[1]
    assert not tell([Scene("a", 2, 3)])[1]


async def test_a_day_in_the_shop_ends_with_books_that_agree() -> None:
    orders = fates(120, seed=20)
    assert any(fate.payment is ROLLBACK for fate in orders)
    settings = dict(setting.split("=") for setting in QUICK_CHECKS)
    async with LocalCluster(settings=settings) as cluster:
        day = Day(orders, timedelta(seconds=2))
        await day.run(cluster.namesrv)
    scenes = day.scenes()
    assert [scene for scene in scenes if not scene.is_true] == []
    nothing = {scene.name for scene in scenes if not scene.expected}
    assert nothing == {"stock: states out of order", nothing_rolled_back(scenes)}, "everything else has happened"
    assert day.shop.totals()["created"] == (120, sum(fate.cents for fate in orders))


def nothing_rolled_back(scenes: list[Scene]) -> str:
    return next(scene.name for scene in scenes if scene.name.endswith("rolled back"))


@pytest.mark.spark
def test_the_demo_runs_and_both_sides_agree() -> None:
    command = [sys.executable, "-m", "pyromq.pipelines.demo", "--orders", "60"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "what came out is what went in" in done.stdout
