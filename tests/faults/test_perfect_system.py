"""The history checker has nothing to say about a perfect system, and something about every falsified history of it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.history import RULES, check
from tests.faults.perfect_system import PerfectSystem, falsified

SEEDS = st.integers(0, 1 << 40)
KINDS = [rule.__name__.replace("_", " ") for rule in RULES]
CALLED = {"overtaken": "out of order", "gaps": "gap"}  # what rules call their findings, if not as themselves


@given(seed=SEEDS, steps=st.integers(0, 300))
@settings(max_examples=60, deadline=None)
def test_a_perfect_system_has_no_findings(seed: int, steps: int) -> None:
    assert check(PerfectSystem(random.Random(seed)).run(steps)) == []


@pytest.mark.parametrize("kind", KINDS)
@given(seed=SEEDS, steps=st.integers(20, 120))
@settings(max_examples=10, deadline=None)
def test_a_falsified_history_is_always_found_out(kind: str, seed: int, steps: int) -> None:
    chance = random.Random(seed)
    history = falsified(PerfectSystem(chance).run(steps), kind, chance)
    if history is not None:
        assert CALLED.get(kind, kind) in {finding.kind for finding in check(history)}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_fault_can_be_planted(kind: str) -> None:
    histories = [PerfectSystem(random.Random(seed)).run(200) for seed in range(5)]
    assert any(falsified(history, kind, random.Random(0)) for history in histories)
