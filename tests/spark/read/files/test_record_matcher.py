"""Damaged records and entries are skipped and reported, and nothing else is."""

from __future__ import annotations

import logging
import random
import zlib
from pathlib import Path

import pytest

from pyromq.errors import CorruptRecord
from pyromq.protocol.messages.compression import COMPRESSED_FLAG
from pyromq.protocol.messages.record import Record
from pyromq.store.message_store import MessageStore
from tests.spark.read.sample_store import (
    COUNT,
    offsets_of,
    overwrite_log,
    plain_messages,
    put_records,
    read_rows,
)
from tests.store.helpers import LOG_FILE_SIZE


@pytest.mark.parametrize(("at", "data"), [(0, b"\x7f"), (4, bytes(4)), (28, b"\1"), (20, b"\1"), (84, b"\x7f\0\0\0")])
def test_a_damaged_record_is_skipped_and_told(
    root: Path, caplog: pytest.LogCaptureFixture, at: int, data: bytes
) -> None:
    position = plain_messages(root)[1, 20].physical_offset
    overwrite_log(root, position + at, data)
    with caplog.at_level(logging.WARNING):
        offsets = offsets_of(read_rows(root))
    assert offsets[1] == [*range(20), *range(21, 67)]
    assert len(offsets[0]) + len(offsets[2]) == COUNT - 67
    file, place = root / "commitlog" / f"{position // LOG_FILE_SIZE * LOG_FILE_SIZE:020}", position % LOG_FILE_SIZE
    text = f"queue orders/store/1: offsets 20 to 20 are damaged ({file} at byte {place}), skipped"
    assert [line for line in caplog.messages if text in line]
    with pytest.raises(CorruptRecord, match="orders/store/1: offsets 20 to 20 are damaged"):
        read_rows(root, failOnDataLoss="true")


def test_a_record_of_another_topic_is_not_taken_for_one_of_this(root: Path) -> None:
    message = plain_messages(root)[1, 20]
    overwrite_log(root, message.physical_offset + 88 + len(message.body) + 1, b"b")
    assert offsets_of(read_rows(root))[1] == [*range(20), *range(21, 67)]


def test_damaged_entries_and_a_missing_log_file_are_skipped(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (root / "consumequeue" / "orders" / "0" / f"{0:020}").open("r+b") as file:
        file.seek(3 * 20)
        file.write(bytes(20))
    gone = root / "commitlog" / f"{5 * LOG_FILE_SIZE:020}"
    plain = plain_messages(root)
    gone.unlink()
    kept = {place for place, message in plain.items() if message.physical_offset // LOG_FILE_SIZE != 5}
    with caplog.at_level(logging.WARNING):
        assert {(row["queue_id"], row["queue_offset"]) for row in read_rows(root)} == kept - {(0, 3)}
    assert f"(…/consumequeue/orders/0/{0:020} at byte 60)" in " ".join(caplog.messages).replace(str(root), "…")
    assert "commitlog, whose file is missing" in " ".join(caplog.messages)


@pytest.mark.parametrize("seed", range(10))
def test_whatever_is_damaged_a_broker_would_hand_out_the_same_rows(root: Path, seed: int) -> None:
    chooser = random.Random(seed)
    files = sorted([*(root / "commitlog").iterdir(), *(root / "consumequeue" / "orders").glob("*/*")])
    for path in chooser.choices(files, k=9):
        with path.open("r+b") as file:
            file.seek(chooser.randrange(path.stat().st_size - 40))
            file.write(chooser.choice((bytes(40), b"\xff" * 40, chooser.randbytes(1))))
    rows = read_rows(root, checkCrc="true", columns="queue_id,queue_offset,body")
    plain = {place: message.body for place, message in plain_messages(root).items()}
    assert {(row["queue_id"], row["queue_offset"]): row["body"] for row in rows} == plain


def test_a_damaged_body_is_found_where_checksums_are_compared(root: Path) -> None:
    message = next(message for message in plain_messages(root).values() if len(message.body) == 600)
    overwrite_log(root, message.physical_offset + 88 + 300, bytes([message.body[300] ^ 1]))
    assert len(read_rows(root)) == COUNT
    assert len(read_rows(root, checkCrc="true")) == COUNT - 1


def test_a_compressed_body_that_is_damaged_is_skipped_unless_it_is_not_asked_for(
    root: Path, store: MessageStore
) -> None:
    body = zlib.compress(b"abc" * 100)
    put_records(store, *(Record(topic="zipped", body=body, sys_flag=COMPRESSED_FLAG) for _ in range(3)))
    place = plain_messages(root, "zipped")[0, 1].physical_offset
    overwrite_log(root, place + 88 + 5, bytes([body[5] ^ 0xFF]))
    rows = read_rows(root, subscribe="zipped", columns="queue_offset,body")
    assert [(row["queue_offset"], row["body"]) for row in rows] == [(0, b"abc" * 100), (2, b"abc" * 100)]
    assert len(read_rows(root, subscribe="zipped")) == 3


def test_a_copy_that_ends_with_its_last_record_is_read_to_the_end(root: Path, store: MessageStore) -> None:
    end = store.max_physical_offset
    store.close()
    last = sorted((root / "commitlog").iterdir())[-1]
    with last.open("r+b") as file:
        file.truncate(end - int(last.name))
    assert len(read_rows(root, columns="body")) == COUNT
    assert len(read_rows(root, subscribe="refunds", columns="body")) == COUNT
