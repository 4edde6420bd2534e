"""Which lane runs."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from pyromq.lane import PARTS, lane_text, native


@pytest.fixture
def sends(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A machine on which sends are native, and nothing else is."""
    monkeypatch.delenv("PYROMQ_LANE", raising=False)
    for part in PARTS:
        monkeypatch.setitem(sys.modules, f"pyromq.lane._{part}", None)  # an import fails
    module = ModuleType("pyromq.lane._sends")
    monkeypatch.setitem(sys.modules, "pyromq.lane._sends", module)
    return module


def test_a_part_is_native_where_it_was_built(sends: ModuleType) -> None:
    assert native("sends") is sends
    assert native("pulls") is None
    assert lane_text() == "native (sends)"


def test_the_environment_chooses_the_plain_lane(sends: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYROMQ_LANE", "plain")
    assert native("sends") is None
    assert lane_text() == "plain"


def test_without_a_compiler_the_plain_lane_runs(sends: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyromq.lane._sends", None)
    assert lane_text() == "plain"
