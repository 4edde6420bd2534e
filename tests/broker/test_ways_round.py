"""Ways round access control that are closed: what counts is what is read or written, never what a request says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.server import Broker
from pyromq.protocol.acl import SIGNATURE, UNIQUE_KEY_QUERY, Credentials, sign, signed
from pyromq.protocol.bodies import HeartbeatData, LockBatchRequestBody, ProducerData, encode
from pyromq.protocol.codes import PULL_SUSPEND_FLAG, RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, SerializeType, request, response
from pyromq.protocol.headers.offsets import GetMaxOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from pyromq.protocol.headers.pull import QueryMessageRequestHeader, ViewMessageByIdRequestHeader
from pyromq.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from pyromq.protocol.headers.timed_messages import RecallMessageRequestHeader
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.messages.message_id import RecallHandle, encode_handle
from pyromq.protocol.messages.record import decode_messages
from pyromq.testing import TestClock, eventually
from tests.access.accounts_text import ACCOUNTS, ADMIN, FORGED, MINE, MY_GROUP, SHOP, write_accounts
from tests.broker.conftest import StartBroker
from tests.broker.guarded_peer import HALF, UNIQ_KEY, GuardedPeer, Stored, end_header
from tests.broker.helpers import heartbeat, pull_header, send_header

OTHER = "other"


@pytest.fixture
async def guarded(start_broker: StartBroker, tmp_path: Path) -> Broker:
    write_accounts(tmp_path)
    return await start_broker(aclEnable="true", transactionTimeOut=1000, transactionCheckInterval=1000)


@pytest.fixture
async def peer(guarded: Broker, clock: TestClock) -> AsyncIterator[GuardedPeer]:
    one = GuardedPeer(guarded, clock)
    yield one
    await one.remoting.close()


async def test_a_message_is_viewed_by_who_may_read_its_topic(peer: GuardedPeer) -> None:
    mine, other = await peer.send(MINE), await peer.send(OTHER)
    await peer.done(SHOP, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageByIdRequestHeader(offset=mine))
    header = {"offset": str(other), "topic": MINE}
    reason = await peer.refusal(SHOP, RequestCode.VIEW_MESSAGE_BY_ID, header)
    assert reason == "account 'test-shop' has no SUB right on topic 'other'"


async def test_a_waiting_message_is_viewed_by_who_may_read_the_topic_that_it_waits_for(peer: GuardedPeer) -> None:
    for properties in ("DELAY\x013", "TIMER_DELAY_MS\x01600000"):
        mine = await peer.send(MINE, properties=properties)
        other = await peer.send(OTHER, properties=f"REAL_TOPIC\x01{MINE}\x02{properties}")
        await peer.done(SHOP, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageByIdRequestHeader(offset=mine))
        reason = await peer.refusal(SHOP, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageByIdRequestHeader(offset=other))
        assert reason.endswith("topic 'other'")


async def test_a_property_of_the_sender_does_not_open_a_message(peer: GuardedPeer) -> None:
    other = await peer.send(OTHER, properties=f"REAL_TOPIC\x01{MINE}\x02RETRY_TOPIC\x01{MINE}")
    await peer.refusal(SHOP, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageByIdRequestHeader(offset=other))


async def test_nobody_sends_back_a_message_of_a_topic_that_is_not_theirs(peer: GuardedPeer) -> None:
    mine, other = await peer.send(MINE), await peer.send(OTHER)

    def back(offset: int, group: str = MY_GROUP) -> ConsumerSendMsgBackRequestHeader:
        return ConsumerSendMsgBackRequestHeader(offset=offset, group=group, delay_level=0, origin_topic=MINE)

    await peer.done(SHOP, RequestCode.CONSUMER_SEND_MSG_BACK, back(mine))
    assert "topic 'other'" in await peer.refusal(SHOP, RequestCode.CONSUMER_SEND_MSG_BACK, back(other))
    assert "group 'g'" in await peer.refusal(SHOP, RequestCode.CONSUMER_SEND_MSG_BACK, back(mine, "g"))


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE])
async def test_a_retry_topic_is_written_by_its_group_and_for_topics_that_it_may_read(
    peer: GuardedPeer, code: RequestCode
) -> None:
    def header(group: str, origin: str | None, **fields: Any) -> object:
        properties = None if origin is None else f"RETRY_TOPIC\x01{origin}"
        return send_header(f"%RETRY%{group}", properties=properties, **fields)

    await peer.done(SHOP, code, header(MY_GROUP, MINE), b"x")
    assert "group 'g'" in await peer.refusal(SHOP, code, header("g", MINE), b"x")
    assert "topic 'other'" in await peer.refusal(SHOP, code, header(MY_GROUP, OTHER), b"x")
    assert "a batch" in await peer.refusal(SHOP, code, header(MY_GROUP, None, batch=True), b"x")


async def test_dead_letters_are_read_by_their_group_and_written_by_nobody(peer: GuardedPeer) -> None:
    offsets = [await peer.send(f"%DLQ%{group}") for group in (MY_GROUP, "g")]
    views = [ViewMessageByIdRequestHeader(offset=offset) for offset in offsets]
    await peer.done(SHOP, RequestCode.VIEW_MESSAGE_BY_ID, views[0])
    await peer.done(SHOP, RequestCode.PULL_MESSAGE, pull_header(f"%DLQ%{MY_GROUP}", consumer_group=MY_GROUP))
    for code, header in (
        (RequestCode.VIEW_MESSAGE_BY_ID, views[1]),
        (RequestCode.PULL_MESSAGE, pull_header("%DLQ%g", consumer_group=MY_GROUP)),
    ):
        assert "group 'g', whose dead letters these are" in await peer.refusal(SHOP, code, header)
    for group in (MY_GROUP, "g"):
        reason = await peer.refusal(SHOP, RequestCode.SEND_MESSAGE_V2, send_header(f"%DLQ%{group}"), b"x")
        assert reason == f"account 'test-shop' has no PUB right on topic '%DLQ%{group}'"


async def test_a_batch_needs_the_right_to_its_topic(peer: GuardedPeer) -> None:
    reason = await peer.refusal(SHOP, RequestCode.SEND_BATCH_MESSAGE, send_header(OTHER, batch=True), b"x")
    assert reason == "account 'test-shop' has no PUB right on topic 'other'"


async def test_a_transaction_is_ended_by_who_may_send_to_the_topic_of_its_half_message(peer: GuardedPeer) -> None:
    await Stored.make(peer)  # half message 0, of MINE
    other = await Stored.make(peer, OTHER)
    reason = await peer.refusal(SHOP, RequestCode.END_TRANSACTION, end_header(other.half, 1))
    assert reason == "account 'test-shop' has no PUB right on topic 'other'"
    await peer.done(ADMIN, RequestCode.END_TRANSACTION, end_header(other.half, 1))


async def test_a_delayed_message_is_cancelled_by_who_may_send_to_its_stored_topic(peer: GuardedPeer) -> None:
    await Stored.make(peer, OTHER)
    handle = encode_handle(RecallHandle(MINE, "broker-a", "0", UNIQ_KEY))
    for topic in (MINE, OTHER, ""):
        header = RecallMessageRequestHeader(topic=topic, recall_handle=handle)
        answer = await peer.ask(SHOP, RequestCode.RECALL_MESSAGE, header)
        assert answer.code != ResponseCode.SUCCESS
    header = RecallMessageRequestHeader(topic=OTHER, recall_handle=handle)
    await peer.done(ADMIN, RequestCode.RECALL_MESSAGE, header)  # it still waited


async def test_only_a_producer_with_the_right_is_shown_an_open_half_message(
    guarded: Broker, clock: TestClock, peer: GuardedPeer
) -> None:
    asked: dict[str, list[str]] = {"shop": [], "admin": []}
    peers = []
    for name, account in (("shop", SHOP), ("admin", ADMIN)):
        one = GuardedPeer(guarded, clock)
        peers.append(one)

        def take(command: RemotingCommand, _: object, name: str = name) -> None:
            asked[name].append(decode_messages(command.body)[0].topic)

        one.remoting.handlers = {RequestCode.CHECK_TRANSACTION_STATE: take}
        body = encode(HeartbeatData(client_id=name, producer_data_set=[ProducerData(group_name="shop")]))
        await one.done(account, RequestCode.HEART_BEAT, None, body)
    for topic in (MINE, MINE, OTHER):  # three: so that the turn of the two producers changes from round to round
        await peer.send(topic, properties=HALF, sys_flag=4, born_timestamp=clock.now_ms())
    for _ in range(6):
        await clock.advance_async(seconds=8)
    await eventually(lambda: MINE in asked["shop"] and OTHER in asked["admin"], "both were asked")
    assert OTHER not in asked["shop"]
    for one in peers:
        await one.remoting.close()


async def test_a_reply_goes_to_the_reply_topic_only(peer: GuardedPeer) -> None:
    for topic in (OTHER, MINE):  # for its own topic the account has PUB
        reason = await peer.refusal(SHOP, RequestCode.SEND_REPLY_MESSAGE_V2, send_header(topic), b"x")
        assert reason == f"a reply goes to topic 'DefaultCluster_REPLY_TOPIC' only, not to {topic!r}"


async def test_who_claims_anothers_client_id_does_not_get_the_replies(
    guarded: Broker, clock: TestClock, peer: GuardedPeer
) -> None:
    got: list[str] = []
    peers = {name: GuardedPeer(guarded, clock) for name in ("asker", "thief", "asker again")}

    async def beat(name: str, account: Credentials, client_id: str = "asker") -> None:
        def take(command: RemotingCommand, _: object) -> RemotingCommand:
            got.append(name)
            return response(command)

        peers[name].remoting.handlers = {RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: take}
        body = encode(HeartbeatData(client_id=client_id, producer_data_set=[ProducerData(group_name="shop")]))
        await peers[name].done(account, RequestCode.HEART_BEAT, None, body)

    header = send_header("DefaultCluster_REPLY_TOPIC", properties="REPLY_TO_CLIENT\x01asker\x02CORRELATION_ID\x01c")

    async def reply() -> str:
        await peer.done(SHOP, RequestCode.SEND_REPLY_MESSAGE_V2, header, b"the answer")
        return got.pop()

    await beat("asker", ADMIN)
    await beat("thief", SHOP)
    assert await reply() == "asker"
    await beat("thief", SHOP, client_id="somebody")  # nor does it take the id away when it goes
    assert await reply() == "asker"
    await beat("asker again", ADMIN)  # the same account, after a connection that may still look open
    assert await reply() == "asker again"
    for one in peers.values():
        await one.remoting.close()


async def test_the_brokers_own_topics_are_read_by_administrators(
    start_broker: StartBroker, clock: TestClock, tmp_path: Path
) -> None:
    reader = ACCOUNTS + "  - accessKey: test-reader\n    secretKey: the-reader's-secret\n    defaultTopicPerm: SUB\n"
    write_accounts(tmp_path, reader + "    defaultGroupPerm: SUB\n")
    account = type(SHOP)("test-reader", "the-reader's-secret")
    peer = GuardedPeer(await start_broker(aclEnable="true"), clock)
    await peer.send(OTHER, properties="DELAY\x011")
    await peer.done(account, RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader(topic=OTHER, queue_id=0))
    header = pull_header("SCHEDULE_TOPIC_XXXX", consumer_group=MY_GROUP)
    assert "SCHEDULE_TOPIC_XXXX" in await peer.refusal(account, RequestCode.PULL_MESSAGE, header)
    await peer.remoting.close()


async def test_a_key_with_the_same_hash_shows_no_message_of_another_topic(peer: GuardedPeer) -> None:
    # "Aa" and "BB" have the same hash in Java: so have `mine-Aa#k` and `mine-BB#k`.
    await peer.send("other-Aa", properties="KEYS\x01k")
    await peer.send("other-BB", properties="KEYS\x01k")

    async def found(account: object, topic: str) -> list[str]:
        header = QueryMessageRequestHeader(topic=topic, key="k", max_num=9, begin_timestamp=0, end_timestamp=2**62)
        answer = await peer.ask(account, RequestCode.QUERY_MESSAGE, header)  # type: ignore[arg-type]
        return sorted(message.topic for message in decode_messages(answer.body))

    await eventually(lambda: found(ADMIN, "other-Aa"), "the index has the message")
    assert await found(ADMIN, "other-Aa") == ["other-Aa", "other-BB"]  # as Apache's
    await peer.send("mine-Aa", properties="KEYS\x01k")
    await peer.send("mine-BB", properties="KEYS\x01k")
    await eventually(lambda: found(SHOP, "mine-Aa"), "the index has the message")
    assert await found(SHOP, "mine-Aa") == ["mine-Aa"]


async def test_both_signatures_of_a_query_by_key_are_accepted(peer: GuardedPeer) -> None:
    await peer.send(MINE, properties="KEYS\x01k")
    fields = {"topic": MINE, "key": "k", "maxNum": "9", "beginTimestamp": "0", "endTimestamp": str(2**62)}
    fields |= {UNIQUE_KEY_QUERY: "false", "AccessKey": SHOP.access_key}
    for is_newer in (False, True):
        signature = sign(fields, b"", SHOP.secret_key, is_newer=is_newer)
        answer = await peer.ask(None, RequestCode.QUERY_MESSAGE, fields | {SIGNATURE: signature})
        assert answer.code in (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND), answer.remark
    other = dict(fields, topic=OTHER)
    await peer.refusal(None, RequestCode.QUERY_MESSAGE, other | {SIGNATURE: sign(fields, b"", SHOP.secret_key)})


async def test_a_one_way_request_is_checked_alike(guarded: Broker, peer: GuardedPeer) -> None:
    await peer.send(MINE)
    for account, offset in ((FORGED, 5), (SHOP, 0)):
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=MY_GROUP, topic=MINE, queue_id=0, commit_offset=offset
        )
        command = signed(request(RequestCode.UPDATE_CONSUMER_OFFSET, header), account)
        await peer.remoting.oneway(peer.address, command)
    await eventually(lambda: guarded.offsets.get(MY_GROUP, MINE, 0) == 0, "the good commit counts")
    await peer.remoting.oneway(peer.address, signed(request(RequestCode.SEND_MESSAGE_V2, send_header(OTHER)), SHOP))
    await peer.done(SHOP, RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader(topic=MINE, queue_id=0))
    assert guarded.topics.get(OTHER) is None


async def test_what_counts_for_a_one_way_request_is_the_stored_message_too(guarded: Broker, peer: GuardedPeer) -> None:
    other = await Stored.make(peer, OTHER)
    back = ConsumerSendMsgBackRequestHeader(offset=other.plain, group=MY_GROUP, delay_level=0, origin_topic=MINE)
    end = guarded.store.max_physical_offset
    for code, header in (
        (RequestCode.END_TRANSACTION, end_header(other.half, 0)),  # producers send it so
        (RequestCode.CONSUMER_SEND_MSG_BACK, back),
        (RequestCode.SEND_REPLY_MESSAGE_V2, send_header(OTHER)),
    ):
        await peer.remoting.oneway(peer.address, signed(request(code, header), SHOP))
    await peer.refusal(SHOP, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageByIdRequestHeader(offset=other.plain))
    assert guarded.figures().varz()["access_forbidden"] == 4
    assert guarded.store.max_physical_offset == end


async def test_a_heartbeat_registers_nobody_if_one_group_is_not_the_accounts(
    guarded: Broker, peer: GuardedPeer
) -> None:
    for group, topic, reason in (("g", MINE, "group 'g'"), (MY_GROUP, OTHER, "topic 'other'")):
        body = heartbeat(group=group, topics={topic: "*"})
        assert reason in await peer.refusal(SHOP, RequestCode.HEART_BEAT, None, body)
    assert not guarded.clients.consumers


async def test_queues_of_another_topic_are_not_locked(peer: GuardedPeer) -> None:
    queues = [MessageQueue(MINE, "broker-a", 0), MessageQueue(OTHER, "broker-a", 0)]
    body = encode(LockBatchRequestBody(consumer_group=MY_GROUP, client_id="c", mq_set=queues))
    for code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
        assert "topic 'other'" in await peer.refusal(SHOP, code, None, body)


async def test_a_signature_in_the_binary_form_counts_alike(peer: GuardedPeer) -> None:
    for account, code in ((SHOP, ResponseCode.SUCCESS), (FORGED, ResponseCode.SYSTEM_ERROR)):
        header = send_header(MINE)
        command = signed(request(RequestCode.SEND_MESSAGE_V2, header, b"x", serialize=SerializeType.ROCKETMQ), account)
        assert (await peer.remoting.request(peer.address, command)).code == code


async def test_a_removed_account_is_out_at_once_and_its_held_pull_too(
    guarded: Broker, clock: TestClock, peer: GuardedPeer, tmp_path: Path
) -> None:
    await peer.send(MINE)
    header = pull_header(MINE, consumer_group=MY_GROUP, queue_offset=1, sys_flag=4 | PULL_SUSPEND_FLAG)
    held = asyncio.ensure_future(peer.ask(SHOP, RequestCode.PULL_MESSAGE, header))
    await eventually(lambda: len(guarded.service.reading.pulls.waiting), "the pull is held")
    write_accounts(tmp_path, ACCOUNTS.replace(SHOP.access_key, "test-another"))
    await clock.advance_async(seconds=5)
    await eventually(held.done, "the connection is closed")
    assert held.exception() is not None
    assert await peer.refusal(SHOP, RequestCode.SEND_MESSAGE_V2, send_header(MINE)) == "No acl config for test-shop"


async def test_what_a_handler_refuses_is_counted_and_logged_too(
    guarded: Broker, peer: GuardedPeer, caplog: pytest.LogCaptureFixture
) -> None:
    other = await peer.send(OTHER)
    await peer.refusal(SHOP, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageByIdRequestHeader(offset=other))
    assert guarded.figures().varz()["access_forbidden"] == 1
    assert caplog.text.count("access refused to a client at 127.0.0.1") == 1


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.HEART_BEAT,
        RequestCode.LOCK_BATCH_MQ,
        RequestCode.CHECK_CLIENT_CONFIG,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.UPDATE_BROKER_CONFIG,
    ],
)
async def test_a_signature_is_checked_before_a_body_is_read(peer: GuardedPeer, code: RequestCode) -> None:
    for body in (b"{", b"\xff" * 70_000):
        assert "Check signature failed" in await peer.refusal(FORGED, code, send_header(MINE, batch=True), body)


@pytest.mark.parametrize("now", ["mine-*=PUB|SUB", f"{MINE}=PUB"])
async def test_a_connection_whose_account_has_fewer_rights_is_closed(
    guarded: Broker, clock: TestClock, peer: GuardedPeer, tmp_path: Path, now: str
) -> None:
    await peer.done(SHOP, RequestCode.SEND_MESSAGE_V2, send_header(MINE))
    (connection,) = guarded._ports._main.connections
    write_accounts(tmp_path, ACCOUNTS.replace(f"{MINE}=PUB|SUB", now))
    await clock.advance_async(seconds=5)
    await eventually(lambda: connection.closed, "the connection is closed")


async def test_who_fails_often_waits_for_each_answer(
    guarded: Broker, clock: TestClock, peer: GuardedPeer, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(10):
        await peer.refusal(FORGED, RequestCode.HEART_BEAT)
    slow = asyncio.ensure_future(peer.refusal(FORGED, RequestCode.HEART_BEAT))
    await peer.done(SHOP, RequestCode.SEND_MESSAGE_V2, send_header(MINE))  # a good client there notices nothing
    assert not slow.done()
    await clock.advance_async(seconds=1)
    assert "Check signature failed" in await slow
    assert caplog.text.count("access refused to a client at 127.0.0.1") == 1
    assert guarded.figures().varz()["access_unknown"] == 11
