from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.broker.server import Broker
from pyromq.protocol.bodies import ConsumerOffsetSerializeWrapper, decode
from pyromq.protocol.codes import (
    PULL_COMMIT_OFFSET_FLAG,
    PULL_FORWARD_FLAG,
    PULL_SUBSCRIPTION_FLAG,
    RequestCode,
    ResponseCode,
)
from pyromq.protocol.messages.message_id import decode_offset_id
from pyromq.protocol.messages.record import decode_messages
from pyromq.testing import TestClock, eventually
from tests.broker.helpers import Peer, pull_header


def queue(queue_id: int = 0, topic: str = "orders", **fields: object) -> dict[str, str]:
    return {"topic": topic, "queueId": str(queue_id), **{name: str(value) for name, value in fields.items()}}


async def commit(peer: Peer, offset: int, queue_id: int = 0, topic: str = "orders") -> None:
    fields = queue(queue_id, topic, consumerGroup="billing", commitOffset=offset)
    await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)


async def committed(peer: Peer, queue_id: int = 0, topic: str = "orders", expect: int = 0) -> str | None:
    fields = queue(queue_id, topic, consumerGroup="billing")
    return (await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields, expect=expect)).ext_fields.get("offset")


async def test_a_committed_offset_is_returned(peer: Peer) -> None:
    await peer.send()
    await commit(peer, 7)
    assert await committed(peer) == "7"
    await commit(peer, 3)
    assert await committed(peer) == "3"
    await commit(peer, -1)
    assert await committed(peer) == "3"


async def test_a_young_queue_without_a_commit_counts_as_0(peer: Peer) -> None:
    await peer.send()
    assert await committed(peer) == "0"
    assert await committed(peer, queue_id=3) == "0"
    assert await committed(peer, topic="nonsense") == "0"


async def test_commits_of_topics_and_queues_that_do_not_exist_are_not_kept(peer: Peer, broker: Broker) -> None:
    # Apache keeps them: any client could fill the table and its file.
    await peer.send()
    await commit(peer, 7, topic="nonsense")
    await commit(peer, 7, queue_id=4)
    await commit(peer, 7, queue_id=-1)
    assert broker.offsets.snapshot() == {}


async def test_commits_are_saved_every_five_seconds(
    peer: Peer, broker: Broker, clock: TestClock, tmp_path: Path
) -> None:
    await peer.send()
    await commit(peer, 7)
    file = tmp_path / "store" / "config" / "consumerOffset.json"
    assert not file.exists()
    await clock.advance_async(seconds=6)
    await eventually(file.exists)
    assert '"orders@billing":{0:7' in file.read_text()


async def test_all_commits_are_listed_for_slaves_and_tools(peer: Peer) -> None:
    await peer.send()
    await commit(peer, 7)
    body = (await peer.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)).body
    assert body == b'{"offsetTable":{"orders@billing":{0:7}}}'
    assert decode(ConsumerOffsetSerializeWrapper, body).offset_table == {"orders@billing": {0: 7}}


@pytest.mark.parametrize(
    ("code", "field", "empty", "filled"),
    [
        (RequestCode.GET_MAX_OFFSET, "offset", "0", "3"),
        (RequestCode.GET_MIN_OFFSET, "offset", "0", "0"),
        (RequestCode.GET_EARLIEST_MSG_STORETIME, "timestamp", "-1", None),
    ],
)
async def test_the_ends_of_a_queue_can_be_asked_for(
    peer: Peer, clock: TestClock, code: int, field: str, empty: str, filled: str | None
) -> None:
    started_ms = clock.now_ms()
    for _ in range(3):
        await peer.send()
    assert (await peer.ask(code, queue(1))).ext_fields[field] == empty
    assert (await peer.ask(code, queue(0, "nonsense"))).ext_fields[field] == empty
    found = (await peer.ask(code, queue(0))).ext_fields[field]
    if filled is None:
        assert started_ms <= int(found) <= clock.now_ms()
    else:
        assert found == filled


async def test_an_offset_is_found_by_time(peer: Peer, clock: TestClock) -> None:
    times = []
    for _ in range(3):
        await clock.advance_async(minutes=1)
        times.append(clock.now_ms())
        await peer.send()

    async def search(timestamp: int, queue_id: int = 0) -> str:
        answer = await peer.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queue(queue_id, timestamp=timestamp))
        return answer.ext_fields["offset"]

    assert await search(times[1] + 5_000) == "1"
    assert await search(0) == "0"
    assert await search(times[2] + 3_600_000) == "2"  # the last message, not the one after it
    assert await search(times[0], queue_id=2) == "0"


async def test_a_message_is_found_by_its_id(peer: Peer) -> None:
    await peer.send(body=b"first")
    answer = await peer.send(body=b"second")
    _, offset = decode_offset_id(answer.ext_fields["msgId"])
    found = await peer.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(offset)})
    assert [message.body for message in decode_messages(found.body)] == [b"second"]


@pytest.mark.parametrize("offset", [-1, 1, 1 << 40])
async def test_an_id_of_no_message_is_an_error(peer: Peer, offset: int) -> None:
    await peer.send()
    await peer.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(offset)}, expect=ResponseCode.SYSTEM_ERROR)


async def test_a_commit_that_may_only_go_forward_keeps_a_higher_one_and_does_not_pass_the_end(peer: Peer) -> None:
    for _ in range(9):
        await peer.send()
    for offset, kept in ((7, "7"), (3, "7"), (9, "9"), (10, "9")):  # there is no message 10
        fields = queue(consumerGroup="billing", commitOffset=offset, pyromqForward="true")
        await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
        assert await committed(peer) == kept


async def test_a_pull_commits_forward_if_it_says_so(peer: Peer) -> None:
    for _ in range(8):
        await peer.send()
    await commit(peer, 7)
    flags = PULL_SUBSCRIPTION_FLAG | PULL_COMMIT_OFFSET_FLAG
    forward = PULL_FORWARD_FLAG
    for offset, more, kept in ((3, forward, "7"), (8, forward, "8"), (9, forward, "8"), (3, 0, "3")):
        header = pull_header(sys_flag=flags | more, commit_offset=offset)
        await peer.ask(RequestCode.PULL_MESSAGE, header)
        assert await committed(peer) == kept


@pytest.mark.parametrize("group", ["g" * 256, "bill ing", "a\nb", "", "中"])
async def test_commits_under_names_that_no_group_can_have_are_refused(peer: Peer, broker: Broker, group: str) -> None:
    await peer.send()
    fields = {"consumerGroup": group, "topic": "orders", "queueId": "0", "commitOffset": "1"}
    answer = await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields, expect=ResponseCode.SYSTEM_ERROR)
    assert "group name" in (answer.remark or "")
    assert broker.offsets.snapshot() == {}
