"""When committed offsets went back, by an id that masters give and slaves copy."""

from __future__ import annotations

from pathlib import Path

from pyromq.broker.tables.reset_ids import NEVER, ResetIds
from pyromq.store.small_files.json_file import JsonFile


def make(directory: Path, most: int = 20_000) -> ResetIds:
    return ResetIds(JsonFile(directory / "pyromqOffsetResets.json"), most=most)


async def test_each_reset_has_another_id_and_the_last_survives_a_restart(tmp_path: Path) -> None:
    resets = make(tmp_path)
    assert resets.of("orders@billing") == NEVER
    resets.note("orders@billing")
    first = resets.of("orders@billing")
    resets.note("orders@billing")
    assert len({NEVER, first, resets.of("orders@billing")}) == 3
    resets.save_if_changed()
    assert await resets.saver.finish()
    again = make(tmp_path)
    again.load()
    assert again.of_all(["orders@billing", "orders@audit"]) == {"orders@billing": resets.of("orders@billing")}


async def test_a_slave_makes_no_ids_and_copies_its_masters(tmp_path: Path) -> None:
    resets = make(tmp_path)
    resets.is_copy = True
    resets.note("orders@billing")
    assert resets.keys == []
    resets.adopt({"orders@billing": "b1"})
    resets.adopt({"orders@audit": "a1"})
    assert resets.of_all(resets.keys) == {"orders@billing": "b1", "orders@audit": "a1"}
    resets.adopt_all({"orders@audit": "a2"})
    assert resets.of_all(resets.keys) == {"orders@audit": "a2"}


def test_the_oldest_are_forgotten_first(tmp_path: Path) -> None:
    resets = make(tmp_path, most=2)
    for key in ("one", "two", "one", "three"):
        resets.note(key)
    assert resets.keys == ["one", "three"]
