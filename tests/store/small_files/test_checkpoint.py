from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.store.files import OsFiles
from pyromq.store.small_files.checkpoint import CHECKPOINT_NAME, POSITION_NAME, Checkpoint, CheckpointFiles, Position

TIMES = Checkpoint(10_000, 9_000, 5_000)
POSITION = Position(4096, 2048)


@pytest.fixture
def checkpoints(tmp_path: Path) -> CheckpointFiles:
    return CheckpointFiles(tmp_path, OsFiles())


def test_a_missing_checkpoint_is_all_zero(checkpoints: CheckpointFiles) -> None:
    assert checkpoints.read() == (Checkpoint(0, 0, 0), None)


def test_the_checkpoint_has_the_layout_rocketmq_reads(checkpoints: CheckpointFiles, tmp_path: Path) -> None:
    checkpoints.write(TIMES, POSITION)
    data = (tmp_path / CHECKPOINT_NAME).read_bytes()
    assert data[:24].hex() == "0000000000002710" + "0000000000002328" + "0000000000001388"
    assert data[24:] == bytes(4096 - 24)


def test_what_was_written_is_read(checkpoints: CheckpointFiles) -> None:
    checkpoints.write(TIMES, POSITION)
    assert checkpoints.read() == (TIMES, POSITION)


def test_the_position_does_not_count_once_another_broker_wrote_the_checkpoint(
    checkpoints: CheckpointFiles, tmp_path: Path
) -> None:
    checkpoints.write(TIMES, POSITION)
    path = tmp_path / CHECKPOINT_NAME
    path.write_bytes((10_001).to_bytes(8, "big") + path.read_bytes()[8:])
    assert checkpoints.read() == (TIMES._replace(log_timestamp_ms=10_001), None)


@pytest.mark.parametrize("byte", range(44))
def test_a_damaged_position_does_not_count(checkpoints: CheckpointFiles, tmp_path: Path, byte: int) -> None:
    checkpoints.write(TIMES, POSITION)
    path = tmp_path / POSITION_NAME
    data = bytearray(path.read_bytes())
    data[byte] ^= 4
    path.write_bytes(data)
    assert checkpoints.read() == (TIMES, None)


@pytest.mark.parametrize("length", [0, 1, 23])
def test_a_checkpoint_cut_short_is_all_zero(checkpoints: CheckpointFiles, tmp_path: Path, length: int) -> None:
    checkpoints.write(TIMES, POSITION)
    path = tmp_path / CHECKPOINT_NAME
    path.write_bytes(path.read_bytes()[:length])
    assert checkpoints.read() == (Checkpoint(), None)


def test_what_is_trusted_lies_three_seconds_before_the_older_of_log_and_queues() -> None:
    assert TIMES.trusted_timestamp_ms == 6_000
    assert Checkpoint(1_000, 9_000, 0).trusted_timestamp_ms == 0
