"""Large tables in answers: in parts for our own peers, in turns for slaves of Apache's."""

from __future__ import annotations

import pytest

from pyromq.broker.server import Broker
from pyromq.broker.tables import table_parts
from pyromq.broker.tables.topic_table import topic_config
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.protocol.bodies import (
    ConsumerOffsetSerializeWrapper,
    SubscriptionGroupConfig,
    TopicConfigSerializeWrapper,
    decode,
    encode,
)
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.admin import TablePartRequestHeader, TablePartResponseHeader
from tests.broker.helpers import Peer


@pytest.fixture
async def filled(broker: Broker) -> Broker:
    """A broker with a hundred topics, groups and rows of offsets."""
    for number in range(100):
        broker.topics.update(topic_config(f"topic-{number:03d}", 4))
        broker.groups.update(SubscriptionGroupConfig(group_name=f"group-{number:03d}"))
        for queue_id in range(4):
            broker.offsets.commit(f"group-{number:03d}", f"topic-{number:03d}", queue_id, 10**18 + queue_id, "me")
    return broker


@pytest.mark.parametrize("part", [500, 1 << 20])
async def test_our_own_peers_get_a_table_of_any_size_in_parts(
    filled: Broker, peer: Peer, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(table_parts, "PART", part)
    monkeypatch.setattr(table_parts, "WHOLE", 1000)
    calls = AdminCalls(peer.remoting)
    assert await calls.topic_configs(peer.address) == filled.topics.snapshot().topic_config_table
    assert await calls.group_settings(peer.address) == filled.groups.snapshot().subscription_group_table
    assert await calls.committed_offsets(peer.address) == filled.offsets.snapshot()


async def test_a_part_says_where_the_next_one_begins(
    filled: Broker, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_parts, "PART", 1000)
    answer = await peer.ask(RequestCode.GET_ALL_TOPIC_CONFIG, TablePartRequestHeader(pyromq_from=3))
    header = answer.header(TablePartResponseHeader)
    names = list(decode(TopicConfigSerializeWrapper, answer.body).topic_config_table)
    assert names == list(filled.topics.by_name)[3 : header.pyromq_next]
    last = TablePartRequestHeader(pyromq_from=len(filled.topics.by_name))
    answer = await peer.ask(RequestCode.GET_ALL_TOPIC_CONFIG, last)
    assert answer.header(TablePartResponseHeader).pyromq_next is None


async def test_whoever_reads_in_parts_begins_again_when_rows_were_removed(
    filled: Broker, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_parts, "PART", 5000)
    calls, asked = AdminCalls(peer.remoting), 0
    answer = filled.handlers[RequestCode.GET_ALL_CONSUMER_OFFSET]

    def remove_one(*args: object) -> object:
        nonlocal asked
        asked += 1
        if asked == 3:
            filled.offsets.remove_group("group-000")
        return answer(*args)  # type: ignore[arg-type]

    filled.handlers[RequestCode.GET_ALL_CONSUMER_OFFSET] = remove_one  # type: ignore[assignment]
    assert await calls.committed_offsets(peer.address) == filled.offsets.snapshot()


async def test_a_slave_of_apaches_gets_offsets_that_do_not_fit_in_one_answer_in_turns(
    filled: Broker, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_parts, "WHOLE", 6000)
    merged: dict[str, dict[int, int]] = {}
    sizes = []
    for _ in range(4):
        answer = await peer.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
        sizes.append(len(answer.body))
        merged |= decode(ConsumerOffsetSerializeWrapper, answer.body).offset_table
    assert merged == filled.offsets.snapshot()
    assert max(sizes) < 6000 + 200


async def test_a_table_that_must_be_whole_and_is_too_large_is_an_error_in_words(
    filled: Broker, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_parts, "WHOLE", 6000)
    for code in (RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG):
        answer = await peer.ask(code, expect=ResponseCode.SYSTEM_ERROR)
        assert "does not fit into one answer" in (answer.remark or "")


async def test_no_row_takes_more_bytes_than_it_is_thought_to(filled: Broker) -> None:
    topics, groups, offsets = filled.topics.parts, filled.groups.parts, filled.offsets.parts
    weighed: list[tuple[str, tuple[int, object]]] = [
        *((name, topics.take(name, row)) for name, row in filled.topics.by_name.items()),
        *((name, groups.take(name, row)) for name, row in filled.groups.by_name.items()),
        *((name, offsets.take(name, row)) for name, row in filled.offsets.snapshot().items()),
    ]
    assert all(len(encode({name: body})) <= weight for name, (weight, body) in weighed)
