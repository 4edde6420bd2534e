"""KVConfig: what was acknowledged is there after a restart, whatever happened in between."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from pyromq.errors import BrokerError, ConfigError
from pyromq.namesrv.kv import KVConfig
from pyromq.store.small_files.json_file import unsealed


def reopened(path: Path) -> KVConfig:
    kv = KVConfig(path)
    kv.load()
    return kv


def kept(path: Path) -> object:
    return json.loads(unsealed(path.read_bytes()))


def damage(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "kvConfig.json"


async def test_values_survive_a_restart_in_apaches_format(path: Path) -> None:
    kv = reopened(path)
    await kv.put("ORDER_TOPIC_CONFIG", "orders", "broker-a:8")
    await kv.put("n", "中", '"')
    assert kept(path) == {"configTable": {"ORDER_TOPIC_CONFIG": {"orders": "broker-a:8"}, "n": {"中": '"'}}}
    assert reopened(path).get("n", "中") == '"'


async def test_a_removed_value_stays_removed_and_its_namespace_known(path: Path) -> None:
    kv = reopened(path)
    await kv.put("n", "k", "v")
    await kv.delete("n", "k")
    await kv.delete("n", "k")
    again = reopened(path)
    assert again.get("n", "k") is None
    assert again.table("n") == {}
    assert again.table("other") is None


async def test_the_state_before_is_kept_beside(path: Path) -> None:
    kv = reopened(path)
    await kv.put("n", "k", "old")
    await kv.put("n", "k", "new")
    damage(path, b'{"configTable":{"n"')
    assert reopened(path).get("n", "k") == "old"


@pytest.mark.parametrize("damaged", [b"{", b"[]", b'{"configTable":7}', b'{"other":{}}'])
async def test_files_that_cannot_be_read_are_an_error_that_names_them(path: Path, damaged: bytes) -> None:
    damage(path, damaged)
    damage(path.with_name("kvConfig.json.bak"), damaged)
    with pytest.raises(ConfigError, match=r"kvConfig\.json"):
        reopened(path)


async def test_what_could_not_be_written_is_not_there_either(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kv = reopened(path)
    await kv.put("n", "k", "old")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(OSError, match="No space"):
        await kv.put("n", "k", "new")
    assert kv.get("n", "k") == "old"
    monkeypatch.undo()
    assert reopened(path).get("n", "k") == "old"
    await kv.put("n", "k", "newer")
    assert reopened(path).get("n", "k") == "newer"


async def test_changes_at_the_same_time_are_all_kept(path: Path) -> None:
    kv = reopened(path)
    await asyncio.gather(*(kv.put("n", str(number), "v") for number in range(20)))
    table = reopened(path).table("n")
    assert table is not None
    assert len(table) == 20


async def test_without_a_path_nothing_is_written() -> None:
    kv = KVConfig()
    kv.load()
    await kv.put("n", "k", "v")
    assert kv.get("n", "k") == "v"


async def test_a_namespace_handed_out_cannot_be_changed_and_does_not_change() -> None:
    kv = KVConfig()
    await kv.put("n", "k", "v")
    table = kv.table("n")
    await kv.put("n", "k2", "v")
    assert table == {"k": "v"}


async def test_keys_and_characters_are_limited() -> None:
    kv = KVConfig(most_pairs=4, most_characters=20)
    await kv.put("n", "a", "12345")
    await kv.put("n", "b", "12345")
    with pytest.raises(BrokerError, match="no room"):
        await kv.put("m", "c", "")
    with pytest.raises(BrokerError, match="no room"):
        await kv.put("n", "b", "12345678901234")
    await kv.put("n", "b", "12345678901")  # what it replaces makes room
    await kv.delete("n", "a")
    await kv.put("m", "c", "1234")
    assert kv.table("m") == {"c": "1234"}
