"""Frames that a stranger might send: every request code, with hostile sizes, counts, texts and JSON.

`known_killers` are those that once stopped a server; `random_frame` makes others. Headers come from the tables of
requests: each field gets a value that its type allows and its author did not expect.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import inspect

from pyromq.broker.requests import REQUESTS as BROKER_REQUESTS
from pyromq.namesrv.requests import REQUESTS as NAMESRV_REQUESTS
from pyromq.protocol.codes import RequestCode as Code
from pyromq.protocol.command import MAX_FRAME
from pyromq.remoting.requests import RequestRow

MAX_HEADER: Final = 250 * 1024  # a little below the limit: above it the connection is closed
MAX_BODY: Final = MAX_FRAME - MAX_HEADER - 100

Random = random.Random


class Frame(NamedTuple):
    """What to send, and what to call it."""

    name: str
    code: int
    data: bytes


def frame(name: str, code: int, ext: dict[str, Any] | None = None, body: bytes = b"", **fields: Any) -> Frame:
    """Return a request with a JSON header."""
    head = {"code": code, "flag": 0, "language": "JAVA", "opaque": 1, "version": 399, "extFields": ext or {}, **fields}
    header = msgspec.json.encode(head)
    return Frame(name, code, struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body)


def binary_frame(name: str, code: int, ext: bytes, body: bytes = b"") -> Frame:
    """Return a request with a binary header whose ext fields are given as bytes."""
    header = struct.pack(">hbhii", code, 0, 399, 1, 0) + struct.pack(">ii", 0, len(ext)) + ext
    return Frame(name, code, struct.pack(">II", 4 + len(header) + len(body), 1 << 24 | len(header)) + header + body)


# --- bodies -----------------------------------------------------------------------------------------------------------


def filled(begin: bytes, item: bytes, end: bytes, size: int) -> bytes:
    """Return `begin`, as many items as fit into `size`, separated by commas, and `end`."""
    count = max((size - len(begin) - len(end)) // (len(item) + 1), 1)
    return begin + b",".join([item] * count) + end


def numbered(begin: bytes, item: bytes, end: bytes, count: int) -> bytes:
    """Return `count` items with their number in each."""
    return begin + b",".join([item.replace(b"#", b"%d" % number) for number in range(count)]) + end


def batch(count: int, body: bytes = b"x", properties: bytes = b"") -> bytes:
    """Return the body of a batch of equal messages."""
    size = 22 + len(body) + len(properties)
    one = struct.pack(">iiiii", size, 0, 0, 0, len(body)) + body + struct.pack(">h", len(properties)) + properties
    return one * count


def registration(topics: int, text: bytes = b"t# 8 8 6 SINGLE_TAG") -> bytes:
    """Return a compressed registration."""
    number = struct.Struct(">i").pack
    parts = [number(27), b'{"counter":1,"timestamp":1}', number(topics)]
    for index in range(topics):
        row = text.replace(b"#", b"%d" % index)
        parts += number(len(row)), row
    return zlib.compress(b"".join((*parts, number(2), b"[]")), 1)


SUBSCRIPTION = b'{"topic":"t#","subString":"a||b||c#","expressionType":"TAG","subVersion":1,"tagsSet":["a"]}'
SQL = b"a > 1 AND (b = 'x' OR c IN ('1','2')) "


def heartbeat(groups: int = 1, subscriptions: int = 1, row: bytes = SUBSCRIPTION, producers: int = 1) -> bytes:
    """Return a heartbeat in standard JSON."""
    rows = numbered(b"[", row, b"]", subscriptions)
    consumers = numbered(b"[", b'{"groupName":"g#","subscriptionDataSet":' + rows + b"}", b"]", groups)
    made = numbered(b"[", b'{"groupName":"p#"}', b"]", producers)
    return b'{"clientID":"c","producerDataSet":' + made + b',"consumerDataSet":' + consumers + b"}"


def _key(rng: Random) -> bytes:
    keys = [b"producerDataSet", b"consumerDataSet", b"mqSet", b"topicConfigSerializeWrapper", b"clientID", b"groupName"]
    return rng.choice(keys)


def _item(rng: Random) -> bytes:
    items = [b"[]", b"{}", b"1", b'""', b"{a:[]}", b"''", b'{"$ref":"$"}', b'{"$ref":"$.a[0]"}', b"null", b'{"a":{}}']
    return rng.choice([*items, SUBSCRIPTION, b'{"groupName":"x"}', b'{"topic":"t","brokerName":"b","queueId":1}'])


def _letter(rng: Random) -> bytes:
    return rng.choice([b"\\u0001", b"x", b'\\"', b"\xff", b"\xe4\xb8\xad"])


def _beat(rng: Random, size: int) -> bytes:
    return heartbeat(rng.randrange(1, 50), max(size // 6000, 1), producers=rng.randrange(1, 200))


def _line(rng: Random) -> bytes:
    return rng.choice([b"a\\\n", b"a=b\n", b"#\n", b"\\\\\n", b"=", b"a" * 100 + b"\\\r\n"])


def _references(rng: Random, size: int) -> bytes:
    referred = filled(b'],"b":[', b"1", b"]}", size // 4)
    return filled(b'{"a":[', b'{"$ref":"$.b"}', referred, size // 2 + len(referred))


BODIES: Final[list[Callable[[Random, int], bytes]]] = [
    # JSON, in both dialects
    lambda rng, size: filled(b'{"%b":[' % _key(rng), _item(rng), b"]}", size),
    lambda rng, size: filled(b"{%b:[" % _key(rng), _item(rng), b",]}", size),
    lambda rng, size: b'{"%b":' % _key(rng) + rng.choice([b"[", b'{"a":', b"[{"]) * (size // 5),
    lambda rng, size: b'{"%b":"' % _key(rng) + _letter(rng) * (size // 6) + b'"}',
    lambda rng, size: b"{" + b",".join(b'"%d":1' % number for number in range(size // 9)) + b"}",
    lambda rng, size: b'{"%b":%b}' % (_key(rng), b"9" * size),
    lambda rng, size: b" " * size + b"{}",
    lambda rng, size: _beat(rng, size),
    lambda rng, size: _beat(rng, size)[: rng.randrange(size)],
    _references,
    # batches, registrations, settings, anything
    lambda rng, size: rng.randbytes(size),
    lambda rng, size: bytes(size),
    lambda rng, size: batch(max(size // 23, 1)),
    lambda rng, size: batch(max(size // 4000, 1), b"x", b"TAGS\x01a\x02KEYS\x01" + b"k " * 1900),
    lambda rng, size: registration(min(size // 20, 300_000)),
    lambda rng, size: zlib.compress(bytes(min(size * 20, 80 << 20)), 1),
    lambda rng, size: _line(rng) * (size // 5),
    lambda rng, size: b"brokerPermission=6\n" + b"k=v\n" * (size // 4),
]


# --- headers ----------------------------------------------------------------------------------------------------------

NAMES: Final = [
    "orders",
    "wide",
    "new",
    "billing",
    "TBW102",
    "%RETRY%billing",
    "broker-a",
    "DefaultCluster",
    "g1",
    "t1",
]
INTEGERS: Final = [
    "0",
    "1",
    "-1",
    "4",
    "8",
    "65535",
    "2147483647",
    "-2147483648",
    "9223372036854775807",
    "x",
    "1.5",
    "",
]


def hostile_text(rng: Random, room: int) -> str:
    """Return a text that is long, illegal, or both."""
    size = rng.choice([0, 1, 100, 300, 5_000, room])
    one = rng.choice(
        ["a", "\n", "\x01", "\x02", "中", "%", "||", " ", "'", "(", "a||", "NOT ", "/", "\\", ",", "0:0:1,"]
    )
    return (one * (size // len(one) + 1))[:size]


def field_value(rng: Random, name: str, kind: inspect.Type, room: int) -> str:
    """Return a value for a header's field: usually a known name or a small number, at times something hostile."""
    if isinstance(kind, inspect.UnionType):
        kind = kind.types[0]
    if isinstance(kind, inspect.BoolType):
        return rng.choice(["true", "false", "1", ""])
    if isinstance(kind, inspect.IntType):
        return rng.choice(INTEGERS) if rng.random() < 0.5 else str(rng.randrange(-2, 40))
    if name in ("properties", "i"):
        return rng.choice(
            [hostile_text(rng, room), "TAGS\x01a\x02KEYS\x01" + "k " * rng.randrange(9_000), "DELAY\x0118\x02"]
        )
    if name in ("subscription", "expressionType"):
        return rng.choice(["TAG", "SQL92", "*", "a||b", (SQL.decode() + "AND ") * rng.randrange(800) + "1 = 1"])
    if name == "ranges":
        return ",".join(f"{number}:0:{rng.choice(INTEGERS)}" for number in range(rng.randrange(400)))
    return rng.choice(NAMES) if rng.random() < 0.7 else hostile_text(rng, room)


def hostile_ext(rng: Random, row: RequestRow) -> dict[str, str]:
    """Return the ext fields of a request; some are missing."""
    if row.header is None:
        return {}
    info = inspect.type_info(row.header)
    assert isinstance(info, inspect.StructType)
    room = MAX_HEADER // 7 // max(len(info.fields), 1)  # a character may take six bytes
    if rng.random() < 0.1:
        room = MAX_HEADER // 7
    values = {each.encode_name: field_value(rng, each.encode_name, each.type, room) for each in info.fields}
    return {name: text for name, text in values.items() if rng.random() < 0.97}


# --- frames -----------------------------------------------------------------------------------------------------------

Rows = dict[int, RequestRow]
BROKER_ROWS: Final[Rows] = {row.code: row for row in BROKER_REQUESTS}
NAMESRV_ROWS: Final[Rows] = {row.code: row for row in NAMESRV_REQUESTS}
HOT: Final = (Code.HEART_BEAT, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.PULL_MESSAGE, Code.REGISTER_BROKER)


def random_frame(rng: Random, rows: Rows) -> Frame:
    """Return a frame for one of these requests, or for a code that nobody answers."""
    hot = [code for code in HOT if code in rows]
    code = rng.choice(hot) if rng.random() < 0.25 else rng.choice(list(rows))
    if rng.random() < 0.02:
        return frame("unknown code", rng.randrange(-(2**31), 2**31), body=rng.randbytes(1000))
    if rng.random() < 0.02:
        return binary_frame("ext fields", code, struct.pack(">hi", 0, 0) * rng.randrange(30_000))
    size = int(2 ** rng.uniform(4, 23.9)) if rng.random() < 0.5 else 0
    body = b""
    if size:
        body = rng.choice(BODIES)(rng, size)[:MAX_BODY]
    return frame(
        f"random {len(body)} bytes", code, hostile_ext(rng, rows[code]), body, version=rng.choice([0, 36, 399, 409])
    )


def each_code(rng: Random, rows: Rows) -> Iterator[Frame]:
    """Yield a plain and some hostile frames for every request."""
    for code, row in rows.items():
        yield frame("no fields", code)
        for _ in range(3):
            yield frame("hostile fields", code, hostile_ext(rng, row))
        yield frame("large body", code, hostile_ext(rng, row), filled(b'{"a":[', b"{}", b"]}", 1 << 20))
        yield frame("dialect", code, hostile_ext(rng, row), filled(b"{a:[", b"{b:1}", b"]}", 16_000))


def _register(body: bytes, compressed: bool = False, **more: Any) -> Frame:
    ext = {"brokerName": "x", "brokerAddr": "10.0.0.9:1", "clusterName": "c", "haServerAddr": "10.0.0.9:2"}
    ext |= {"brokerId": "0", "compressed": str(compressed).lower(), "bodyCrc32": "0"} | more
    return frame(f"registration of {len(body)} bytes", Code.REGISTER_BROKER, ext, body)


def _send(code: int, topic: str, properties: str, body: bytes, batch: bool = False) -> Frame:
    ext = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": properties}
    return frame(f"send of {len(body)} bytes", code, ext | {"m": str(batch).lower()}, body)


def _pull(subscription: str, kind: str = "TAG", topic: str = "orders") -> Frame:
    ext = {"consumerGroup": "billing", "topic": topic, "queueId": "0", "queueOffset": "0", "maxMsgNums": "32"}
    ext |= {"sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "1"}
    return frame(f"pull {kind}", Code.PULL_MESSAGE, ext | {"subscription": subscription, "expressionType": kind})


def _commit(group: str) -> Frame:
    ext = {"consumerGroup": group, "topic": "orders", "queueId": "0", "commitOffset": "1"}
    return frame("commit", Code.UPDATE_CONSUMER_OFFSET, ext)


def _group(**fields: object) -> Frame:
    return frame(
        "group", Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, msgspec.json.encode({"groupName": "g1", **fields})
    )


def _topic(name: str, queues: int) -> Frame:
    ext = {"topic": name, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues)}
    ext |= {"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    return frame("topic", Code.UPDATE_AND_CREATE_TOPIC, ext)


def wide_topic() -> Iterator[Frame]:
    """Yield what creates a topic of 65,535 queues and asks everything about it."""
    yield _topic("wide", 65_535)
    yield _commit("billing")
    yield frame("stats", Code.GET_TOPIC_STATS_INFO, {"topic": "wide"})
    yield frame("time spans", Code.QUERY_CONSUME_TIME_SPAN, {"topic": "wide", "group": "billing"})
    for queue in ("0", "65534"):
        ext = {"consumerGroup": "billing", "topic": "wide", "queueId": queue, "commitOffset": "1"}
        yield frame("commit", Code.UPDATE_CONSUMER_OFFSET, ext)
    yield frame("progress", Code.GET_CONSUME_STATS, {"consumerGroup": "billing", "topic": "wide"})
    yield frame("all progress", Code.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
    reset = {"topic": "wide", "group": "billing", "timestamp": "0", "isForce": "true"}
    yield frame("reset", Code.INVOKE_BROKER_TO_RESET_OFFSET, reset)
    yield frame(
        "correction", Code.QUERY_CORRECTION_OFFSET, {"topic": "wide", "compareGroup": "g1", "filterGroups": "," * 9000}
    )
    yield frame("clone", Code.CLONE_GROUP_OFFSET, {"srcGroup": "billing", "destGroup": "g2", "topic": "wide"})
    queues = [{"topic": "wide", "brokerName": "broker-a", "queueId": queue} for queue in range(65_535)]
    body = msgspec.json.encode({"consumerGroup": "billing", "clientId": "c", "mqSet": queues})
    yield frame("lock", Code.LOCK_BATCH_MQ, {}, body)
    yield frame("unlock", Code.UNLOCK_BATCH_MQ, {}, body)


def broker_killers() -> Iterator[Frame]:
    """Yield frames that once stopped a broker for long, and their kin."""
    yield frame(
        "dialect of 7 MiB", Code.HEART_BEAT, {}, filled(b"{producerDataSet:[", b"{groupName:'x'}", b"]}", 7 << 20)
    )
    yield frame(
        "dialect of 3 MiB", Code.HEART_BEAT, {}, filled(b"{producerDataSet:[", b"{groupName:'x'}", b"]}", 3 << 20)
    )
    yield frame("450,000 groups", Code.HEART_BEAT, {}, filled(b'{"producerDataSet":[', b"{}", b"]}", 1_350_000))
    yield frame("1,000 producers", Code.HEART_BEAT, {}, heartbeat(1, 1, producers=1_000))
    yield frame("900 consumers", Code.HEART_BEAT, {}, heartbeat(900, 2))
    yield frame("16,000 subscriptions", Code.HEART_BEAT, {}, heartbeat(1, 16_000))
    sql = b'{"topic":"t#","subString":"' + SQL * 200 + b'","expressionType":"SQL92","subVersion":1}'
    yield frame("400 filters", Code.HEART_BEAT, {}, heartbeat(1, 400, sql.replace(b") a", b") AND a")))
    yield frame(
        "references", Code.HEART_BEAT, {}, filled(b'{"a":[', b'{"$ref":"$.b"}', b'],"b":[' + b"1," * 900 + b"1]}", 4096)
    )
    nested = b'{"a0":[1,1,1,1],' + b",".join(
        b'"a%d":[%b]' % (level, b",".join([b'{"$ref":"$.a%d"}' % (level - 1)] * 8)) for level in range(1, 20)
    )
    yield frame("nested references", Code.HEART_BEAT, {}, nested + b"}")
    yield frame("settings", Code.UPDATE_BROKER_CONFIG, {}, b"a\\\n" * 320_000)
    yield frame("small settings", Code.UPDATE_BROKER_CONFIG, {}, b"a\\\n" * 21_000)
    yield _group(retryQueueNums=2**31 - 1)
    yield _send(Code.SEND_MESSAGE_V2, "%RETRY%g1", "", b"x")
    yield frame("heartbeat of g1", Code.HEART_BEAT, {}, heartbeat(2, 1))
    yield frame("stats of retries", Code.GET_TOPIC_STATS_INFO, {"topic": "%RETRY%g1"})
    yield frame("progress of g1", Code.GET_CONSUME_STATS, {"consumerGroup": "g1"})
    yield _send(Code.SEND_BATCH_MESSAGE, "orders", "", batch(170_000), batch=True)
    yield _send(Code.SEND_BATCH_MESSAGE, "orders", "", batch(2_000, b"x", b"KEYS\x01" + b"k " * 900), batch=True)
    yield _send(Code.SEND_MESSAGE_V2, "orders", "KEYS\x01" + "".join(f"k{number} " for number in range(5_000)), b"x")
    yield _send(Code.SEND_MESSAGE_V2, "orders", "a\x01b\x02" * 8_000, b"x")
    yield _send(Code.SEND_MESSAGE_V2, "orders", "TAGS\x01" + "t" * 32_000, bytes(4 << 20))
    yield _send(Code.SEND_MESSAGE_V2, "orders", "TAGS\x01" + "中" * 10_000, bytes(15 << 20))
    for number in range(20):
        yield _commit("\n" * 100_000 + str(number))
    yield _commit("g" * 240_000)
    yield _pull("||".join(f"t{number}" for number in range(30_000)))
    yield _pull("||" * 120_000)
    yield _pull("t" * 240_000)
    yield _pull((SQL.decode() + "AND ") * 3_000 + "a = 1", "SQL92")
    yield _pull("NOT " * 50_000 + "a = 1", "SQL92")
    yield _pull("(" * 100_000, "SQL92")
    yield _pull("a IN (" + ",".join(f"'{number}'" for number in range(20_000)) + ")", "SQL92")
    yield _pull("a" * 200_000, "FUNCTION")
    yield from wide_topic()
    ext = {"topic": "orders", "key": "k", "maxNum": "2147483647", "beginTimestamp": "0", "endTimestamp": "9" * 18}
    yield frame("query", Code.QUERY_MESSAGE, ext)
    yield frame("query of a long key", Code.QUERY_MESSAGE, ext | {"key": "k" * 200_000})
    entries = {"topic": "orders", "queueId": "0", "index": "0", "count": "2147483647", "consumerGroup": "billing"}
    yield frame("entries", Code.QUERY_CONSUME_QUEUE, entries)
    ranges = ",".join(f"{number}:0:9999999" for number in range(256))
    pull = {
        "consumerGroup": "billing",
        "topic": "wide",
        "ranges": ranges,
        "maxMsgNums": "2147483647",
        "maxBytes": "9" * 15,
    }
    yield frame("many queues", Code.PULL_QUEUES, pull)
    yield frame("all offsets", Code.GET_ALL_CONSUMER_OFFSET)
    yield frame("all topics", Code.GET_ALL_TOPIC_CONFIG)
    yield frame("all groups", Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    yield frame("runtime", Code.GET_BROKER_RUNTIME_INFO)


def namesrv_killers() -> Iterator[Frame]:
    """Yield frames that once stopped a name server for long, and their kin."""
    yield _register(registration(200_000), compressed=True)
    yield _register(registration(5_000, b"t" * 12_000 + b"# 8 8 6 SINGLE_TAG"), compressed=True)
    yield _register(registration(1_500_000, b"#"), compressed=True)
    yield _register(zlib.compress(bytes(200 << 20), 1), compressed=True)
    row = b'"topic-#":{"topicName":"topic-#","readQueueNums":8,"writeQueueNums":8,"perm":6,"order":false}'
    yield _register(numbered(b'{"topicConfigSerializeWrapper":{"topicConfigTable":{', row, b"}}}", 60_000))
    yield _register(filled(b'{"topicConfigSerializeWrapper":{"topicConfigTable":{', b'"a":{}', b"}}}", MAX_BODY))
    yield _register(filled(b'{"filterServerList":[', b'"a"', b"]}", MAX_BODY))
    for code in (Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Code.GET_UNIT_TOPIC_LIST, Code.GET_BROKER_CLUSTER_INFO):
        yield frame("list", code)
    yield frame("topics of a cluster", Code.GET_TOPICS_BY_CLUSTER, {"cluster": "c"})
    yield frame("wipe", Code.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "x"})
    yield frame("add", Code.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "x"})
    for number in range(30):
        value = {"namespace": "ORDER_TOPIC_CONFIG", "key": f"k{number}", "value": "\x01" * 40_000}
        yield frame("kv", Code.PUT_KV_CONFIG, value)
    yield frame("kv list", Code.GET_KVLIST_BY_NAMESPACE, {"namespace": "ORDER_TOPIC_CONFIG"})
    yield _register(b"{}")
    yield frame("settings", Code.UPDATE_NAMESRV_CONFIG, {}, b"a\\\n" * 320_000)
    yield frame("small settings", Code.UPDATE_NAMESRV_CONFIG, {}, b"a=b\n" * 16_000)
    yield frame(
        "unregister",
        Code.UNREGISTER_BROKER,
        {"brokerName": "x", "brokerAddr": "10.0.0.9:1", "clusterName": "c", "brokerId": "0"},
    )


KILLERS: Final[dict[str, Callable[[], Iterator[Frame]]]] = {"broker": broker_killers, "namesrv": namesrv_killers}
ROWS: Final[dict[str, Rows]] = {"broker": BROKER_ROWS, "namesrv": NAMESRV_ROWS}
