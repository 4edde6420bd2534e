from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.errors import MessageTooLarge
from pyromq.store.message_store import MessageStore
from tests.store.helpers import FakeTime, QuickFiles, bodies, log_files, message, queue_files, small_config, small_store


def fill(root: Path, count: int, *, log_size: int = 4096, queue_size: int = 200, queues: int = 1) -> list[bytes]:
    with small_store(root, commit_log_file_size=log_size, consume_queue_file_size=queue_size) as store:
        for index in range(count):
            store.put(message(body=b"%d" % index, queue_id=index % queues))
    return [b"%d" % index for index in range(count)]


@pytest.mark.parametrize(("count", "openings"), [(1, 45), (100, 5)])
@pytest.mark.parametrize(("log_size", "queue_size"), [(8192, 100), (1 << 20, 6_000_000), (4096, 400), (16384, 200)])
def test_a_directory_is_opened_with_the_sizes_it_was_made_with(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int, openings: int, log_size: int, queue_size: int
) -> None:
    expected = fill(tmp_path, count)
    with small_store(tmp_path) as store:
        store.put(message("quiet"))
    other: dict[str, Any] = {"commit_log_file_size": log_size, "consume_queue_file_size": queue_size}
    for index in range(count, count + openings):
        with small_store(tmp_path, QuickFiles(), **other) as store:
            assert store.put(message(body=b"%d" % index)).queue_offset == index
        expected.append(b"%d" % index)
    with small_store(tmp_path, **other) as store:
        assert bodies(store) == expected
    assert {path.stat().st_size for path in queue_files(tmp_path)} == {200}
    assert {path.stat().st_size for path in log_files(tmp_path)} == {4096}
    assert "keeps the file size it was made with" in caplog.text


def test_a_single_file_that_is_full_may_be_extended_for_nothing_tells_it_from_one_that_was_cut(tmp_path: Path) -> None:
    expected = fill(tmp_path, 10)
    for _ in range(2):
        with small_store(tmp_path, consume_queue_file_size=400) as store:
            store.put(message(body=b"more"))
            store.commit()
            expected.append(b"more")
            assert bodies(store) == expected
    assert {path.stat().st_size for path in queue_files(tmp_path)} == {400}


def test_the_same_sizes_are_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path, 30, queues=3)
    fill(tmp_path, 30, queues=3)
    assert "file size" not in caplog.text


def test_each_size_that_differs_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path, 25, queues=3)
    with small_store(tmp_path, commit_log_file_size=8192, consume_queue_file_size=2000):
        assert len([record for record in caplog.records if "mappedFileSize" in record.getMessage()]) == 2


@pytest.mark.parametrize("length", [0, 1, 102, 4095])
def test_a_single_file_of_the_log_that_a_crash_left_short_is_not_of_another_size(tmp_path: Path, length: int) -> None:
    fill(tmp_path, 1)
    with log_files(tmp_path)[0].open("r+b") as file:
        file.truncate(length)
    (tmp_path / "pyromq.position").unlink()
    (tmp_path / "abort").touch()
    with small_store(tmp_path) as store:
        store.put(message(body=b"more"))
    assert {path.stat().st_size for path in log_files(tmp_path)} == {4096}


def test_a_single_queue_file_that_a_crash_left_short_is_not_of_another_size(tmp_path: Path) -> None:
    expected = fill(tmp_path, 5)
    with queue_files(tmp_path)[0].open("r+b") as file:
        file.truncate(100)
    with small_store(tmp_path) as store:
        assert bodies(store) == expected
    assert {path.stat().st_size for path in queue_files(tmp_path)} == {200}


def test_messages_must_fit_into_the_files_that_are_there(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    larger = MessageStore(small_config(tmp_path, commit_log_file_size=1 << 20), FakeTime())
    with larger as store, pytest.raises(MessageTooLarge):
        store.put(message(body=b"x" * 5000))
