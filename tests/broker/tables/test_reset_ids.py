"""When committed offsets went back, by an id that masters give and slaves copy."""

from __future__ import annotations

from pathlib import Path

from pyromq.broker.tables.reset_ids import NEVER, RESETS_NAME, ResetIds


async def test_each_reset_has_another_id_and_the_last_survives_a_restart(tmp_path: Path) -> None:
    resets = ResetIds(tmp_path)
    assert resets.of("orders@billing") == NEVER
    resets.note("orders@billing")
    first = resets.of("orders@billing")
    resets.note("orders@billing")
    assert len({NEVER, first, resets.of("orders@billing")}) == 3
    resets.save_if_changed()
    assert await resets.saver.finish()
    again = ResetIds(tmp_path)
    again.load()
    assert again.of_all(["orders@billing", "orders@audit"]) == {"orders@billing": resets.of("orders@billing")}


async def test_a_slave_makes_no_ids_and_copies_its_masters(tmp_path: Path) -> None:
    resets = ResetIds(tmp_path)
    resets.is_copy = True
    resets.note("orders@billing")
    assert resets.keys == []
    resets.adopt({"orders@billing": "b1"})
    resets.adopt({"orders@audit": "a1"})
    assert resets.of_all(resets.keys) == {"orders@billing": "b1", "orders@audit": "a1"}
    resets.adopt_all({"orders@audit": "a2"})
    assert resets.of_all(resets.keys) == {"orders@audit": "a2"}


def test_the_oldest_are_forgotten_first(tmp_path: Path) -> None:
    resets = ResetIds(tmp_path, most=2)
    for key in ("one", "two", "one", "three"):
        resets.note(key)
    assert resets.keys == ["one", "three"]


async def test_a_damaged_file_is_left_out_and_one_that_is_only_read_not_written(tmp_path: Path) -> None:
    (tmp_path / RESETS_NAME).write_text("not ours")
    resets = ResetIds(tmp_path, read_only=True)
    resets.load()
    assert resets.keys == []
    resets.note("orders@billing")
    resets.save_if_changed()
    assert await resets.saver.finish()
    assert (tmp_path / RESETS_NAME).read_text() == "not ours"
