"""Questions: requests of any code that refer to what was asked and answered before."""

from __future__ import annotations

import random
import struct
from collections import deque
from typing import Final

import msgspec
from msgspec import inspect

from pyromq.protocol.codes import RequestCode as Code
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.requests import Cost, RequestRow
from tests.broker.helpers import heartbeat
from tests.faults.fuzz.mutations import mutated
from tests.faults.hostile_frames import BODIES, Rows, batch, field_value

TOPICS: Final = ["orders", "bills", "fast", "%RETRY%g1", "%DLQ%g1"]
OWN_TOPICS: Final = ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_wheel_timer", "TBW102"]
GROUPS: Final = ["g1", "g2", "shop", "TOOLS_CONSUMER"]
CLIENTS: Final = ["client-1", "client-2"]
LIKELY: Final = [
    Code.SEND_MESSAGE_V2, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.PULL_MESSAGE, Code.PULL_MESSAGE,
    Code.HEART_BEAT, Code.UNREGISTER_CLIENT, Code.UPDATE_CONSUMER_OFFSET, Code.END_TRANSACTION,
    Code.CONSUMER_SEND_MSG_BACK, Code.LOCK_BATCH_MQ, Code.UPDATE_AND_CREATE_TOPIC, Code.DELETE_TOPIC_IN_BROKER,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.DELETE_SUBSCRIPTIONGROUP, Code.INVOKE_BROKER_TO_RESET_OFFSET,
]  # fmt: skip
PROPERTIES: Final = [
    "", "TAGS\x01a\x02KEYS\x01k1 k2\x02", "DELAY\x011\x02", "TIMER_DELAY_MS\x01{n}\x02", "DELAY\x01x\x02",
    "TRAN_MSG\x01true\x02PGROUP\x01shop\x02", "UNIQ_KEY\x01{id}\x02", "RETRY_TOPIC\x01orders\x02",
    "TRAN_MSG\x01false", "WAIT\x01false\x02",
]  # fmt: skip
_OFFSETS: Final = ("offset", "commitLogOffset", "tranStateTableOffset", "queueOffset", "commitOffset", "index")
_FIXED: Final = {  # a pull that waits is answered later, and nobody waits for it here
    "suspendTimeoutMillis": "5",
    "timeout": "5",
    "waitMillis": "5",
    "timeoutMillis": "5",
    "brokerName": "broker-a",
    "bname": "broker-a",
    "readQueueNums": "4",
    "writeQueueNums": "4",
    "topicFilterType": "SINGLE_TAG",
    "perm": "6",
}


class Questions:
    """Draws requests, and learns from their answers."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._numbers = deque(["0", "1", "2"], maxlen=40)
        self._texts = deque(["0" * 32], maxlen=40)

    def code(self, rows: Rows) -> int:
        """Return a request code of these."""
        likely = [code for code in LIKELY if code in rows]
        return self._rng.choice(likely if likely and self._rng.random() < 0.5 else list(rows))

    def ask(self, row: RequestRow) -> tuple[dict[str, str], bytes]:
        """Return ext fields and a body for a request."""
        ext = self._ext(row)
        if row.cost is Cost.SEND and self._rng.random() < 0.9:  # or it is refused nearly always
            is_batch = "true" if row.code == Code.SEND_BATCH_MESSAGE else "false"
            ext |= {name: text for name, text in (("f", "0"), ("sysFlag", "0"), ("m", is_batch)) if name in ext}
        return ext, self._body(row.code)

    def learn(self, answer: RemotingCommand) -> None:
        """Remember what an answer contains."""
        for text in answer.ext_fields.values():
            if text.lstrip("-").isdigit():
                self._numbers.append(text)
            elif 8 <= len(text) <= 200:
                self._texts.append(text)
                if len(text) == 32:  # an offset message id: address, then the physical offset
                    self._numbers.append(str(int(text[16:], 16)) if _is_hex(text) else "0")

    def _ext(self, row: RequestRow) -> dict[str, str]:
        if row.header is None:
            return {}
        info = inspect.type_info(row.header)
        assert isinstance(info, inspect.StructType)
        values = {each.encode_name: self._value(each.name, each.encode_name, each.type) for each in info.fields}
        return {name: text for name, text in values.items() if self._rng.random() < 0.98}

    def _value(self, name: str, wire: str, kind: inspect.Type) -> str:
        rng = self._rng
        if isinstance(kind, inspect.UnionType):
            kind = kind.types[0]
        if wire in _FIXED:
            return _FIXED[wire]
        if rng.random() < 0.03:
            return field_value(rng, wire, kind, 2_000)
        if name == "default_topic":
            return "TBW102"
        if name in ("topic", "origin_topic"):
            return rng.choice(TOPICS if rng.random() < 0.9 else OWN_TOPICS)
        if "group" in name.lower():
            return rng.choice(GROUPS)
        if "client" in name:
            return rng.choice(CLIENTS)
        if name == "properties":
            return rng.choice(PROPERTIES).format(n=rng.randrange(-5, 3_000), id=rng.choice(self._texts))
        if wire in _OFFSETS or name.endswith("offset"):
            return self._near(rng.choice(self._numbers))
        if name in ("msg_id", "transaction_id", "recall_handle", "unique_key", "key", "origin_msg_id"):
            return rng.choice(self._texts)
        if name == "commit_or_rollback":
            return rng.choice(["0", "8", "12"])
        if isinstance(kind, inspect.IntType):
            return "4" if name == "sys_flag" and rng.random() < 0.8 else str(rng.randrange(5))
        if isinstance(kind, inspect.BoolType):
            return rng.choice(["true", "false"])
        if name in ("subscription", "expression_type"):
            return "TAG" if name == "expression_type" else "*"
        return field_value(rng, wire, kind, 300)

    def _near(self, number: str) -> str:
        return str(min(max(int(number) + self._rng.choice((0, 0, 0, 1, -1, 4)), -(2**63)), 2**63 - 1))

    def _body(self, code: int) -> bytes:
        rng = self._rng
        body = self._good_body(code)
        if rng.random() < 0.15:
            body = mutated(body, rng, [body, b"{}"])
        elif rng.random() < 0.05:
            body = rng.choice(BODIES)(rng, rng.choice((10, 200, 3_000)))
        return body

    def _good_body(self, code: int) -> bytes:
        rng = self._rng
        group, topic, client = rng.choice(GROUPS), rng.choice(TOPICS), rng.choice(CLIENTS)
        match code:
            case Code.HEART_BEAT:
                producer = group if rng.random() < 0.3 else None
                return heartbeat(client, group, {topic: rng.choice(["*", "a||b"])}, producer=producer)
            case Code.LOCK_BATCH_MQ | Code.UNLOCK_BATCH_MQ:
                queues = [{"topic": topic, "brokerName": "broker-a", "queueId": rng.randrange(-1, 6)}]
                return msgspec.json.encode({"consumerGroup": group, "clientId": client, "mqSet": queues})
            case Code.CHECK_CLIENT_CONFIG:
                subscription = {"topic": topic, "subString": "a > 1", "expressionType": "SQL92"}
                return msgspec.json.encode({"clientId": client, "group": group, "subscriptionData": subscription})
            case Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP:
                return msgspec.json.encode({"groupName": group, "retryMaxTimes": rng.randrange(-1, 4)})
            case Code.SEND_BATCH_MESSAGE:
                return batch(rng.randrange(4), b"x" * rng.randrange(300))
            case Code.UPDATE_BROKER_CONFIG:
                return rng.choice([b"fileReservedTime=72", b"unknown=1", b"maxMessageSize=x", b"storePathRootDir=/tmp"])
        return rng.randbytes(rng.choice((0, 0, 1, 100, 3_000)))


def _is_hex(text: str) -> bool:
    try:
        struct.pack(">q", int(text[16:], 16))
        return int(text, 16) >= 0
    except (ValueError, struct.error):
        return False
