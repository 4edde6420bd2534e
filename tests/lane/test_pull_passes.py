"""A pass answers and notes what the plain lane would, however reads are cut, and leaves the rest alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.lane import VARIABLE
from pyromq.lane.pull_passes import new_pull_pass

from .pull_pass_desk import KEY, PassDesk, pass_difference

NEW_PASS = new_pull_pass()
native_only = pytest.mark.skipif(NEW_PASS is None, reason="the native lane is not built")


@native_only
@given(st.integers(0, 1 << 32))
def test_a_pass_does_what_the_plain_lane_does(seed: int) -> None:
    assert NEW_PASS is not None
    assert pass_difference(seed, NEW_PASS) == ""


@native_only
def test_reads_at_random_are_answered_and_committed_often_enough_to_tell() -> None:
    desks = [PassDesk(seed) for seed in range(2000)]
    assert NEW_PASS is not None
    served = [desk.serve_in_pass(NEW_PASS, 0)[0] for desk in desks]
    assert sum(count > 0 for count in served) > 60
    assert sum(KEY in desk.notes.told for desk in desks) > 5
    assert any(desk.notes.count.calls > 1 for desk in desks)
    assert any(0 < count < len(desk.stream) for count, desk in zip(served, desks, strict=True))


def desk_that_answers() -> PassDesk:
    """Return one that answers the whole of its read."""
    for seed in range(10_000):
        desk = PassDesk(seed)
        assert NEW_PASS is not None
        if desk.caller is None and desk.serve_in_pass(NEW_PASS, 0)[0] == len(desk.stream):
            return PassDesk(seed)
    raise AssertionError("none found")


@native_only
def test_a_pass_that_has_used_up_its_bytes_leaves_the_rest() -> None:
    assert NEW_PASS is not None
    desk = desk_that_answers()
    assert NEW_PASS(desk._known, desk, desk.log, desk._scratch, 0).feed(desk.stream)[0] == 0
    one = NEW_PASS(desk._known, desk, desk.log, desk._scratch, 1)
    served, answers = one.feed(desk.stream)
    assert served == 4 + len(desk._frames[0])
    assert one.end() == (1, len(answers))


@native_only
def test_wrong_arguments_and_rows_are_refused() -> None:
    assert NEW_PASS is not None
    new_pass: Any = NEW_PASS
    desk = desk_that_answers()
    good = (desk._known, desk, desk.log, desk._scratch, 1 << 20)
    wrong: tuple[Any, ...]
    for wrong in [(), good[:-1], ([], *good[1:]), (*good[:3], bytearray(9), 1), (*good[:4], "text")]:
        with pytest.raises((TypeError, OverflowError)):
            new_pass(*wrong)
    with pytest.raises(TypeError):
        new_pass(*good).feed(memoryview(b""))
    note = desk.notes.quick_note()._replace(commits=True, is_forward=False)
    for bad in [
        note[:3],
        note._replace(offsets=new_pass),
        note._replace(offsets=_with(table=[])),
        note._replace(offsets=_with(table={KEY: 5})),
        note._replace(offsets=_with(table={KEY: {0: "text"}})),
        note._replace(offsets=_with(table={KEY: {0: -5}}), saver=_with(changes=_with(rows=5))),
        note._replace(commits=False, gets=_with(messages="text")),
        note._replace(commits=False, stats=new_pass),
    ]:
        known = {shape: pull._replace(quick_note=bad) for shape, pull in desk._known.items()}
        with pytest.raises((TypeError, AttributeError)):
            new_pass(known, *good[1:]).feed(desk.stream)
    known = {shape: pull._replace(quick_note=None) for shape, pull in desk._known.items()}
    assert new_pass(known, *good[1:]).feed(desk.stream)[0] == 0


def _with(**attributes: object) -> Any:
    return type("Anything", (), attributes)()


def test_the_plain_lane_has_no_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "plain")
    assert new_pull_pass() is None
