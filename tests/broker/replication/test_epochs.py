"""Epochs: one history for all copies of a log."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.broker.replication.epochs import EPOCHS_NAME, EpochFile, common_end
from pyromq.broker.replication.rescue.lost_tail import is_continued
from pyromq.protocol.bodies.replication import Epoch
from tests.broker.replication.full_disk import FullDisk

A, B, C = Epoch(1, "a", 0), Epoch(2, "b", 100), Epoch(2, "c", 80)


def opened(root: Path) -> EpochFile:
    file = EpochFile(root)
    file.load()
    return file


def test_an_epoch_is_there_after_a_restart(tmp_path: Path) -> None:
    first = opened(tmp_path)
    begun = [first.begin(0), first.begin(500)]
    again = opened(tmp_path)
    assert again.epochs == begun
    assert [epoch.number for epoch in begun] == [1, 2]
    assert again.store_id == first.store_id


def test_an_epoch_without_a_message_leaves_no_trace(tmp_path: Path) -> None:
    file = opened(tmp_path)
    file.begin(0)
    file.begin(500)
    last = file.begin(500)
    assert [(epoch.number, epoch.start) for epoch in file.epochs] == [(1, 0), (3, 500)]
    assert file.current == last


def test_two_masters_started_by_hand_never_look_alike(tmp_path: Path) -> None:
    one, other = opened(tmp_path / "one"), opened(tmp_path / "other")
    assert one.begin(0) != other.begin(0)
    assert one.store_id != other.store_id


def test_a_number_can_be_raised(tmp_path: Path) -> None:
    file = opened(tmp_path)
    assert file.begin(0, at_least=7).number == 7
    assert file.begin(10).number == 8


def test_a_damaged_file_is_a_new_member(tmp_path: Path) -> None:
    before = opened(tmp_path)
    before.begin(0)
    data = (tmp_path / EPOCHS_NAME).read_bytes()
    (tmp_path / EPOCHS_NAME).write_bytes(data.replace(b'"epochs"', b'"epocks"'))
    after = opened(tmp_path)
    assert after.epochs == []
    assert after.store_id != before.store_id


def test_a_master_on_a_full_disk_goes_on_without_a_new_epoch(tmp_path: Path) -> None:
    led = opened(tmp_path).begin(0)
    full = EpochFile(tmp_path, FullDisk())
    full.load()
    full.begin(100)
    assert opened(tmp_path).epochs == [led]


def test_a_slave_is_not_promoted_where_its_epoch_cannot_be_saved(tmp_path: Path) -> None:
    """Two masters of one epoch would look alike."""
    opened(tmp_path).adopt([A])
    full = EpochFile(tmp_path, FullDisk())
    full.load()
    with pytest.raises(OSError, match="no space"):
        full.begin(100)


def test_what_a_stranger_wrote_is_an_epoch_of_its_own_in_a_new_store(tmp_path: Path) -> None:
    file = opened(tmp_path)
    first = file.begin(0)
    store_id = file.store_id
    file.break_off(70)
    again = opened(tmp_path)
    assert again.store_id != store_id
    assert [(epoch.number, epoch.start) for epoch in again.epochs] == [(1, 0), (2, 70)]
    assert common_end(again.epochs, 200, [first], 300) == 70


@pytest.mark.parametrize(
    ("mine", "my_end", "theirs", "their_end", "expected"),
    [
        ([A], 70, [A], 90, 70),
        ([A], 120, [A], 90, 90),
        ([A], 120, [A, B], 150, 100),  # I went on as the old master, beyond the new one's beginning
        ([A, B], 150, [A, C], 200, 80),
        ([A, B], 60, [A, C], 200, 60),  # what I know of B is not in my log yet
        ([A, B], 150, [A, B], 150, 150),
        ([B], 150, [C], 200, None),
        ([], 150, [A], 200, None),
        ([A], 0, [], 0, None),
    ],
)
def test_where_two_logs_part(
    mine: list[Epoch], my_end: int, theirs: list[Epoch], their_end: int, expected: int | None
) -> None:
    assert common_end(mine, my_end, theirs, their_end) == expected
    assert common_end(theirs, their_end, mine, my_end) == expected


class _Log:
    """A log of (epoch, number) bytes with its history: the plain version."""

    def __init__(self) -> None:
        self.bytes: list[str] = []
        self.epochs: list[Epoch] = []

    def lead(self, count: int, name: str) -> None:
        start = len(self.bytes)
        self.epochs = [epoch for epoch in self.epochs if epoch.start < start]
        self.epochs.append(Epoch(self.epochs[-1].number + 1 if self.epochs else 1, name, start))
        self.bytes += [f"{name}{number}" for number in range(count)]

    def follow(self, other: _Log, count: int) -> None:
        end = common_end(self.epochs, len(self.bytes), other.epochs, len(other.bytes))
        self.bytes = self.bytes[: end or 0]
        self.epochs = list(other.epochs)
        self.bytes += other.bytes[len(self.bytes) :][:count]


@given(st.lists(st.tuples(st.sampled_from(["send", "copy", "power cut", "kill"]), st.integers(0, 9)), max_size=40))
def test_what_a_slave_has_is_never_cut_because_its_master_lost_it(steps: list[tuple[str, int]]) -> None:
    master, slave = _Log(), _Log()
    master.lead(0, "first")
    for number, (step, count) in enumerate(steps):
        if step == "send":
            master.bytes += [f"s{number}-{one}" for one in range(count)]
        elif step == "copy":
            slave.follow(master, count)
        else:
            if step == "power cut":
                del master.bytes[max(len(master.bytes) - count, 0) :]
            if is_continued(master.epochs, len(master.bytes), slave.epochs, len(slave.bytes)):
                master.bytes += slave.bytes[len(master.bytes) :]
                master.epochs = list(slave.epochs)
            master.lead(0, f"e{number}")
        confirmed = list(slave.bytes)
        assert master.bytes[: len(confirmed)] == confirmed
        slave.follow(master, 0)
        assert slave.bytes == confirmed


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 9)), max_size=30))
def test_a_copy_never_mixes_two_histories(steps: list[tuple[int, int, int]]) -> None:
    logs = [_Log() for _ in range(3)]
    logs[0].lead(5, "x")
    for log in logs[1:]:
        log.follow(logs[0], 5)
    for number, (who, other, count) in enumerate(steps):
        if who == other:
            logs[who].lead(count, f"e{number}-")
        else:
            logs[who].follow(logs[other], count)
            copied = len(logs[who].bytes)
            assert logs[who].bytes == logs[other].bytes[:copied]
