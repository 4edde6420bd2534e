"""Floods of requests, and hostile contents."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from itertools import count, cycle

from pyromq.protocol.codes import ONEWAY_FLAG, RESPONSE_FLAG
from pyromq.protocol.codes import RequestCode as Code
from tests.faults.hostile.target import Target, heartbeat, pull, request, send, send_quietly
from tests.faults.hostile_frames import SQL, batch, filled

MEBI = 1 << 20
COMPRESSED = 1


def held_pulls(target: Target) -> None:
    """Hold 5,000 pulls on one queue, over few connections, while messages for it arrive."""
    for each in target.crowd(10):
        send_quietly(each, pull("rude-held", offset=10**9, suspend_ms=60_000) * 500)
    target.ask_all_the_time(cycle([send("rude-held")]))


def held_pulls_of_many_queues(target: Target) -> None:
    """Hold pulls on as many queues as there can be numbers of."""
    for number, each in enumerate(target.crowd(10)):
        send_quietly(each, b"".join(pull("rude", number * 100 + one, 10**9, 60_000) for one in range(100)))
    target.stay()


def same_opaque(target: Target) -> None:
    """Give all requests the same number, also those that wait."""
    frames = [pull("rude", offset=10**9, suspend_ms=5_000), send("rude"), heartbeat("c", ["p"], ["g"])]
    target.ask_all_the_time(cycle([b"".join(frames) * 20]))


def oneway_flood(target: Target) -> None:
    """Send messages and heartbeats without waiting for any answer."""
    frames = send("rude", flag=ONEWAY_FLAG) * 50 + request(Code.HEART_BEAT, {}, b"{}", flag=ONEWAY_FLAG) * 50
    target.ask_all_the_time(cycle([frames]), connections=4)


def unasked_answers(target: Target) -> None:
    """Send answers to requests that were never sent."""
    frames = b"".join(request(0, {}, b"x", flag=RESPONSE_FLAG, opaque=number) for number in range(200))
    target.ask_all_the_time(cycle([frames]))


def unknown_codes(target: Target) -> None:
    """Ask for what no server answers."""
    frames = b"".join(request(number, {"a": "b"}) for number in (-1, 0, 1, 999, 2**31 - 1)) * 20
    target.ask_all_the_time(cycle([frames]), connections=4)


def forged_system_flags(target: Target) -> None:
    """Send messages whose flags say what they are not: compressed, transactional, with addresses of IPv6."""
    flags = (1, 4, 8, 12, 16, 32, 48, 0x100, 0x700, -1, 2**31 - 1)
    frames = b"".join(send("rude", b"no zlib here", "TRAN_MSG\x01true\x02", flag) for flag in flags)
    target.ask_all_the_time(cycle([frames]), connections=4)


def bombs(target: Target) -> None:
    """Send bodies that are a thousand times as large when they are inflated, to both servers."""
    bomb = zlib.compress(bytes(200 * MEBI), 9)
    ext = {"brokerName": "x", "brokerAddr": "10.0.0.9:1", "clusterName": "c", "haServerAddr": "", "brokerId": "1"}
    registration = request(Code.REGISTER_BROKER, ext | {"compressed": "true", "bodyCrc32": "0"}, bomb)
    other = target.connect(target.namesrv)
    for _ in target.rounds():
        with target.once() as connection:
            connection.sendall(send("rude", bomb, sys_flag=COMPRESSED))
            connection.recv(1)
        if other is None or not send_quietly(other, registration):
            other = target.connect(target.namesrv)


def large_messages(target: Target) -> None:
    """Send messages that are larger than allowed, and as large as allowed."""
    target.ask_all_the_time(cycle([send("rude", bytes(4 * MEBI)), send("rude", bytes(15 * MEBI))]), connections=4)


def long_expressions(target: Target) -> None:
    """Subscribe by expressions that take long to compile or to evaluate."""
    texts = [(SQL.decode() + "AND ") * 200 + "a = 1", "NOT " * 2000 + "a = 1", "(" * 8000, "a" * 8000]
    frames = [pull("rude", expressionType="SQL92", subscription=text) for text in texts]
    frames += [pull("rude", subscription="||".join(f"t{number}" for number in range(20_000)))]
    target.ask_all_the_time(cycle(frames), connections=4)


def large_batches(target: Target) -> None:
    """Send batches of as many tiny messages as fit."""
    ext = {"a": "rude", "b": "rude", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": ""}
    frame = request(Code.SEND_BATCH_MESSAGE, ext | {"j": "0", "k": "false", "m": "true"}, batch(100_000))
    target.ask_all_the_time(cycle([frame]), connections=2)


def many_properties(target: Target) -> None:
    """Send messages with thousands of properties and keys."""
    texts = ("a\x01b\x02" * 8_000, "KEYS\x01" + "".join(f"k{number} " for number in range(5_000)))
    target.ask_all_the_time(cycle([send("rude", properties=text) for text in texts]), connections=2)


def hostile_json(target: Target) -> None:
    """Send heartbeats and locks that are deep, wide, refer to themselves, or are no JSON."""
    bodies = [
        b'{"a":' * 50_000,
        filled(b'{"producerDataSet":[', b"{}", b"]}", 900_000),
        filled(b'{"a":[', b'{"$ref":"$.b"}', b'],"b":[' + b"1," * 900 + b"1]}", 4096),
        b'{"consumerDataSet":{"$ref":"$"}}',
        b'{"clientID":"' + b"\\u0000" * 100_000 + b'"}',
        b"\xff\xfe" * 1000,
        b"9" * 900_000,
    ]
    codes = (Code.HEART_BEAT, Code.LOCK_BATCH_MQ, Code.CHECK_CLIENT_CONFIG, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
    target.ask_all_the_time(cycle([request(code, {}, body) for body in bodies for code in codes]), connections=3)


def heavy_questions(target: Target) -> None:
    """Ask for statistics, lists and searches without a pause."""
    search = {"topic": "rude", "key": "k", "maxNum": "64", "beginTimestamp": "0", "endTimestamp": "9" * 13}
    frames = [
        request(Code.GET_BROKER_RUNTIME_INFO),
        request(Code.GET_ALL_TOPIC_CONFIG),
        request(Code.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}),
        request(Code.QUERY_MESSAGE, search),
        request(Code.SEARCH_OFFSET_BY_TIMESTAMP, {"topic": "rude", "queueId": "0", "timestamp": "1"}),
        request(Code.GET_ALL_CONSUMER_OFFSET),
    ]
    target.ask_all_the_time(cycle(frames), connections=8)


def broken_settings(target: Target) -> None:
    """Change settings that cannot be changed, to values that they cannot have."""
    body = b"brokerName=x\nstorePathRootDir=/tmp\n" + b"k\\\n" * 5_000
    frames = [request(Code.UPDATE_BROKER_CONFIG, {}, body), request(Code.UPDATE_BROKER_CONFIG, {}, b"aclEnable=false")]
    target.ask_all_the_time(cycle(frames), connections=2)


def transactions_without_end(target: Target) -> None:
    """Send half messages, and end transactions that do not exist."""
    half = send("rude", properties="TRAN_MSG\x01true\x02PGROUP\x01rude\x02", sys_flag=4)
    ext = {"producerGroup": "rude", "tranStateTableOffset": "5", "commitLogOffset": "12345", "commitOrRollback": "8"}
    end = request(Code.END_TRANSACTION, ext | {"fromTransactionCheck": "false", "msgId": "x"})
    target.ask_all_the_time(cycle([half * 20 + end * 20]))


def messages_sent_back(target: Target) -> None:
    """Send back messages that are not there."""
    offsets = count(1)

    def frames() -> Iterator[bytes]:
        while True:
            ext = {"offset": str(next(offsets)), "group": "rude", "delayLevel": "1", "originMsgId": "x"}
            yield request(Code.CONSUMER_SEND_MSG_BACK, ext | {"originTopic": "rude", "maxReconsumeTimes": "3"}) * 10

    target.ask_all_the_time(frames())


def far_delays(target: Target) -> None:
    """Send delayed and timed messages without a pause, also with times that no timer knows."""
    texts = ("DELAY\x0118\x02", "DELAY\x0199\x02", "__STARTDELIVERTIME\x01" + "9" * 18 + "\x02", "DELAY\x01x\x02")
    target.ask_all_the_time(cycle([send("rude", properties=text) * 20 for text in texts]))


def joins_and_leaves(target: Target) -> None:
    """Join and leave one group without a pause, so that its members share out their queues all the time."""
    leave = request(Code.UNREGISTER_CLIENT, {"clientID": "c", "consumerGroup": "good", "producerGroup": "x"})
    target.ask_all_the_time(cycle([heartbeat("c", ["x"], ["good"], "good") + leave]), connections=50)


def logs_forged_lines(target: Target) -> None:
    """Have the server log texts with line breaks, colours and another time."""
    text = "x\n2026-01-01T00:00:00.000Z ERROR pyromq everything is lost\x1b[31m\r\n"
    commit = {"consumerGroup": text, "topic": "good", "queueId": "0", "commitOffset": "1"}
    frames = [
        request(Code.HEART_BEAT, {}, json.dumps({"clientID": text, "consumerDataSet": [{"groupName": text}]}).encode()),
        request(Code.UPDATE_CONSUMER_OFFSET, commit),
        struct.pack(">I", 2**31 - 1),
    ]
    target.ask_all_the_time(cycle(frames), connections=2)
