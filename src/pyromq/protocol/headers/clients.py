"""Headers about connected clients: their membership, and what a broker asks them."""

from __future__ import annotations

from msgspec import field

from pyromq.protocol.headers import I64, Header


class HeartBeatResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    """The answer to HEART_BEAT (34); a PyroMQ broker fills in its version, by which PyroMQ clients recognise it."""

    pyromq: str | None = None


class UnregisterClientRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """UNREGISTER_CLIENT (35)."""

    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class GetConsumerListByGroupRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """GET_CONSUMER_LIST_BY_GROUP (38)."""

    consumer_group: str


class NotifyConsumerIdsChangedRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """NOTIFY_CONSUMER_IDS_CHANGED (40), broker to client."""

    consumer_group: str


class ResetConsumerClientOffsetRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """RESET_CONSUMER_CLIENT_OFFSET (220), broker to client; the same fields as INVOKE_BROKER_TO_RESET_OFFSET (222)."""

    topic: str
    group: str
    timestamp: I64
    is_force: bool = False


class GetConsumerStatusFromClientRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """GET_CONSUMER_STATUS_FROM_CLIENT (221), broker to client; `client_addr` holds a client id."""

    topic: str
    group: str
    client_addr: str | None = None


class GetConsumerRunningInfoRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """GET_CONSUMER_RUNNING_INFO (307), relayed by the broker."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectlyRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """CONSUME_MESSAGE_DIRECTLY (309), relayed by the broker, which fills in its name."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
