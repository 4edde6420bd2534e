"""Headers for sending: to a topic, back to a retry topic, and a reply to a request message."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import field

from pyromq.protocol.headers import I32, I64, Header, encode_json
from pyromq.protocol.names import DEFAULT_REGION

STORED_HERE = "pyromqStored"
"""The ext field of a refused send whose message is in the log nevertheless: it may survive, or not."""


class SendMessageRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """SEND_MESSAGE (10) and SEND_REPLY_MESSAGE (324)."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: I32
    queue_id: I32
    sys_flag: I32
    born_timestamp: I64
    flag: I32
    properties: str | None = None
    reconsume_times: I32 | None = None
    unit_mode: bool = False
    max_reconsume_times: I32 | None = None
    batch: bool = False
    broker_name: str | None = field(default=None, name="bname")


class SendMessageRequestHeaderV2(SendMessageRequestHeader, frozen=True, kw_only=True, gc=False):
    """SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320) and SEND_REPLY_MESSAGE_V2 (325): the same by letters."""

    producer_group: str = field(name="a")
    topic: str = field(name="b")
    default_topic: str = field(name="c")
    default_topic_queue_nums: I32 = field(name="d")
    queue_id: I32 = field(name="e")
    sys_flag: I32 = field(name="f")
    born_timestamp: I64 = field(name="g")
    flag: I32 = field(name="h")
    properties: str | None = field(default=None, name="i")
    reconsume_times: I32 | None = field(default=None, name="j")
    unit_mode: bool = field(default=False, name="k")
    max_reconsume_times: I32 | None = field(default=None, name="l")
    batch: bool = field(default=False, name="m")
    broker_name: str | None = field(default=None, name="n")

    def to_json(self) -> bytes:
        """Return the ext fields as JSON, in a third of the general encoder's time."""
        return _SEND_V2 % (
            encode_json(self.producer_group),
            encode_json(self.topic),
            encode_json(self.default_topic),
            self.default_topic_queue_nums,
            self.queue_id,
            self.sys_flag,
            self.born_timestamp,
            self.flag,
            b"" if self.properties is None else b',"i":%b' % encode_json(self.properties),
            b"" if self.reconsume_times is None else b',"j":"%d"' % self.reconsume_times,
            b"true" if self.unit_mode else b"false",
            b"" if self.max_reconsume_times is None else b',"l":"%d"' % self.max_reconsume_times,
            b"true" if self.batch else b"false",
            b"" if self.broker_name is None else b',"n":%b' % encode_json(self.broker_name),
        )


_SEND_V2 = b'{"a":%b,"b":%b,"c":%b,"d":"%d","e":"%d","f":"%d","g":"%d","h":"%d"%b%b,"k":"%b"%b,"m":"%b"%b}'


class SendMessageResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    """The answer to a stored send; for a batch, `msg_id` holds all ids, separated by commas."""

    msg_id: str = ""
    queue_id: I32
    queue_offset: I64
    transaction_id: str | None = None
    msg_region: str = field(default=DEFAULT_REGION, name="MSG_REGION")
    trace_on: bool = field(default=True, name="TRACE_ON")


def read_place(ext: Mapping[str, str]) -> tuple[str, int, int]:
    """Return id, queue and offset from the answer to a send, in a third of the time of the whole header.

    Raises LookupError or ValueError if only the general decoder can read the answer.
    """
    return ext["msgId"], int(ext["queueId"]), int(ext["queueOffset"])


class ConsumerSendMsgBackRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """CONSUMER_SEND_MSG_BACK (36); `offset` is the message's physical offset. The last two fields are PyroMQ's own."""

    offset: I64
    group: str
    delay_level: I32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: I32 | None = None
    broker_name: str | None = field(default=None, name="bname")
    pyromq_cause: str | None = None
    """Why the listener failed: the exception and where it was raised."""
    pyromq_delay_ms: I64 | None = None
    """The delay before redelivery; a broker that does not know this field uses the level."""


class PushReplyMessageToClientRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """PUSH_REPLY_MESSAGE_TO_CLIENT (326), broker to the client that waits for the reply."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: I32
    queue_id: I32
    sys_flag: I32
    born_timestamp: I64
    flag: I32
    properties: str | None = None
    reconsume_times: I32 | None = None
    unit_mode: bool = False
    born_host: str
    store_host: str
    store_timestamp: I64
