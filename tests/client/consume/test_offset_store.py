"""The local file in which a broadcasting member keeps its offsets."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.client.consume.offset_store import LocalOffsets
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import MessageQueue

QUEUES = [MessageQueue("T", "broker-a", number) for number in range(3)]


async def test_offsets_survive_in_the_file(tmp_path: Path) -> None:
    offsets = LocalOffsets(tmp_path / "deep" / "offsets.json")
    assert await offsets.load(QUEUES[0]) is None
    for number, queue in enumerate(QUEUES):
        await offsets.commit(queue, number * 10)
    again = LocalOffsets(tmp_path / "deep" / "offsets.json")
    assert [await again.load(queue) for queue in QUEUES] == [0, 10, 20]


async def test_a_damaged_file_falls_back_to_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    offsets = LocalOffsets(path)
    await offsets.commit(QUEUES[0], 5)
    await offsets.commit(QUEUES[0], 6)
    path.write_bytes(b"{broken")
    assert await LocalOffsets(path).load(QUEUES[0]) == 5
    path.unlink()
    assert await LocalOffsets(path).load(QUEUES[0]) == 5
    path.write_bytes(b"{broken")
    path.with_name("offsets.json.bak").write_bytes(b"also")
    with pytest.raises(ClientError, match="repair or remove it"):
        await LocalOffsets(path).load(QUEUES[0])


async def test_java_s_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    path.write_text(
        '{\n\t"offsetTable":{{\n\t\t"brokerName":"broker-a",\n\t\t"queueId":2,\n\t\t"topic":"T"\n\t}:7\n\t}\n}'
    )
    assert await LocalOffsets(path).load(QUEUES[2]) == 7


async def test_offsets_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(ClientError, match="could not be written"):
        await LocalOffsets(tmp_path / "file" / "offsets.json").commit(QUEUES[0], 1)
