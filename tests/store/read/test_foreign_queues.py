"""What other brokers put into queues and we do not: extension units and messages in more queues than one."""

from __future__ import annotations

import shutil
from pathlib import Path

from pyromq.protocol.messages.properties import INNER_MULTI_DISPATCH, encode_properties
from pyromq.protocol.messages.record import Record
from pyromq.store.consume_queue import ENTRY
from tests.store.helpers import HOST, bodies, message, queue_files, small_store

EXTENSION_ADDRESS = 20 - 2**63  # what RocketMQ writes where a tags code would stand: unit at byte 20 of the side file
LIGHT = "%LMQ%light"


def as_left_by_another_broker(root: Path) -> None:
    """Remove what only we write."""
    for path in root.glob("pyromq.*"):
        path.unlink()


def test_entries_that_hold_the_address_of_an_extension_unit_pass_every_filter(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        for tag in ("a", "b", "c"):
            store.put(message(body=tag.encode(), tag=tag))
    path = queue_files(tmp_path)[0]
    with path.open("r+b") as file:
        for index in range(2):
            file.seek(index * ENTRY.size + 12)
            file.write((EXTENSION_ADDRESS + index).to_bytes(8, "big", signed=True))
    extension = tmp_path / "consumequeue_ext" / "orders" / "0" / f"{0:020d}"
    extension.parent.mkdir(parents=True)
    extension.write_bytes(bytes(1000))
    as_left_by_another_broker(tmp_path)
    for count in (3, 4):
        with small_store(tmp_path) as store:
            assert store.get("orders", 0, 0, 32, codes=frozenset({ord("b")})).count >= 1
            assert len(bodies(store)) == count
            store.put(message(tag="d"))
    assert [child.name for child in (tmp_path / "consumequeue_ext").rglob("*")] == ["orders", "0", f"{0:020d}"]
    assert extension.read_bytes() == bytes(1000)


def test_what_is_unknown_of_a_tag_is_left_to_the_consumer(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        for tag in ("a", "b"):
            store.put(message(body=tag.encode(), tag=tag))
        store.commit()
        with queue_files(tmp_path)[0].open("r+b") as file:
            file.seek(12)
            file.write(EXTENSION_ADDRESS.to_bytes(8, "big", signed=True))
        result = store.get("orders", 0, 0, 32, codes=frozenset({ord("c")}))
        assert (result.count, result.next_offset) == (1, 2)


def test_queues_of_multi_dispatch_are_read_kept_and_not_written(tmp_path: Path) -> None:
    dispatched = Record(
        topic="orders",
        body=b"in two queues",
        properties=encode_properties({INNER_MULTI_DISPATCH: LIGHT, "INNER_MULTI_QUEUE_OFFSET": "0"}).encode(),
        store_host=HOST,
    )
    with small_store(tmp_path) as store:
        store.put(dispatched)
    shutil.copytree(tmp_path / "consumequeue" / "orders", tmp_path / "consumequeue" / LIGHT)
    as_left_by_another_broker(tmp_path)
    for unclean in (False, True, False):
        if unclean:
            (tmp_path / "abort").touch()
        with small_store(tmp_path) as store:
            assert bodies(store)[0] == b"in two queues"
            assert bodies(store, LIGHT) == [b"in two queues"]
            store.put(dispatched)
    with small_store(tmp_path) as store:
        assert (store.max_offset("orders", 0), store.max_offset(LIGHT, 0)) == (4, 1)
        store.cleaner.delete_unused_topics(lambda topic: topic == "orders")
        assert bodies(store, LIGHT) == [b"in two queues"]
