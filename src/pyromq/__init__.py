"""PyroMQ: Apache RocketMQ 4.9 for Python teams, with Spark inside.

The public names are here and resolved on first use, so that `import pyromq` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyromq.app.application import App as App
    from pyromq.app.calls import HandlerCall as HandlerCall
    from pyromq.app.calls import Proceed as Proceed
    from pyromq.app.providers import State as State
    from pyromq.client.config import FlowControl as FlowControl
    from pyromq.client.consume.offset_store import LocalOffsets as LocalOffsets
    from pyromq.client.consume.stall_report import BlockedQueue as BlockedQueue
    from pyromq.client.consume.subscriptions import Function as Function
    from pyromq.client.consume.subscriptions import Sql as Sql
    from pyromq.client.group.allocation import allocate_averagely as allocate_averagely
    from pyromq.client.group.allocation import allocate_by_circle as allocate_by_circle
    from pyromq.client.group.allocation import allocate_by_config as allocate_by_config
    from pyromq.client.group.allocation import allocate_by_consistent_hash as allocate_by_consistent_hash
    from pyromq.client.group.allocation import allocate_by_machine_room as allocate_by_machine_room
    from pyromq.client.group.allocation import allocate_nearby as allocate_nearby
    from pyromq.client.group.allocation import allocate_sticky as allocate_sticky
    from pyromq.client.hooks import ConsumeContext as ConsumeContext
    from pyromq.client.hooks import ConsumeHook as ConsumeHook
    from pyromq.client.hooks import EndContext as EndContext
    from pyromq.client.hooks import SendContext as SendContext
    from pyromq.client.hooks import SendHook as SendHook
    from pyromq.client.listener.outcomes import COMMIT as COMMIT
    from pyromq.client.listener.outcomes import ROLLBACK as ROLLBACK
    from pyromq.client.listener.outcomes import UNKNOWN as UNKNOWN
    from pyromq.client.listener.outcomes import Ack as Ack
    from pyromq.client.listener.outcomes import DeadLetter as DeadLetter
    from pyromq.client.listener.outcomes import RetryLater as RetryLater
    from pyromq.client.listener.outcomes import Suspend as Suspend
    from pyromq.client.poll.lite_pull_consumer import LitePullConsumer as LitePullConsumer
    from pyromq.client.push.push_consumer import PushConsumer as PushConsumer
    from pyromq.client.send.producer import Producer as Producer
    from pyromq.client.send.transaction_producer import TransactionProducer as TransactionProducer
    from pyromq.client.send_result import PendingResult as PendingResult
    from pyromq.client.send_result import SendResult as SendResult
    from pyromq.client.send_result import SendStatus as SendStatus
    from pyromq.client.send_result import TransactionResult as TransactionResult
    from pyromq.client.trace.config import Trace as Trace
    from pyromq.client.trace.dispatcher import TraceCounts as TraceCounts
    from pyromq.errors import AccessDenied as AccessDenied
    from pyromq.errors import BrokerError as BrokerError
    from pyromq.errors import ClientError as ClientError
    from pyromq.errors import ConnectFailed as ConnectFailed
    from pyromq.errors import ConnectionLost as ConnectionLost
    from pyromq.errors import InvalidMessage as InvalidMessage
    from pyromq.errors import NoRoute as NoRoute
    from pyromq.errors import NotSupported as NotSupported
    from pyromq.errors import PayloadError as PayloadError
    from pyromq.errors import PyroMQError as PyroMQError
    from pyromq.errors import RemotingError as RemotingError
    from pyromq.errors import RequestTimeout as RequestTimeout
    from pyromq.protocol.acl import Credentials as Credentials
    from pyromq.protocol.headers.transactions import TransactionState as TransactionState
    from pyromq.protocol.messages.message import Message as Message
    from pyromq.protocol.messages.message import MessageExt as MessageExt
    from pyromq.protocol.messages.message import MessageQueue as MessageQueue
    from pyromq.remoting.tls.client_tls import Tls as Tls

_HOMES = {
    "Ack": "client.listener.outcomes",
    "allocate_averagely": "client.group.allocation",
    "allocate_by_circle": "client.group.allocation",
    "allocate_by_config": "client.group.allocation",
    "allocate_by_consistent_hash": "client.group.allocation",
    "allocate_by_machine_room": "client.group.allocation",
    "allocate_nearby": "client.group.allocation",
    "allocate_sticky": "client.group.allocation",
    "App": "app.application",
    "BlockedQueue": "client.consume.stall_report",
    "COMMIT": "client.listener.outcomes",
    "ConsumeContext": "client.hooks",
    "ConsumeHook": "client.hooks",
    "Credentials": "protocol.acl",
    "DeadLetter": "client.listener.outcomes",
    "EndContext": "client.hooks",
    "FlowControl": "client.config",
    "Function": "client.consume.subscriptions",
    "HandlerCall": "app.calls",
    "LitePullConsumer": "client.poll.lite_pull_consumer",
    "LocalOffsets": "client.consume.offset_store",
    "Message": "protocol.messages.message",
    "MessageExt": "protocol.messages.message",
    "MessageQueue": "protocol.messages.message",
    "PendingResult": "client.send_result",
    "Producer": "client.send.producer",
    "Proceed": "app.calls",
    "PushConsumer": "client.push.push_consumer",
    "RetryLater": "client.listener.outcomes",
    "ROLLBACK": "client.listener.outcomes",
    "SendContext": "client.hooks",
    "SendHook": "client.hooks",
    "SendResult": "client.send_result",
    "SendStatus": "client.send_result",
    "Sql": "client.consume.subscriptions",
    "State": "app.providers",
    "Suspend": "client.listener.outcomes",
    "Tls": "remoting.tls.client_tls",
    "Trace": "client.trace.config",
    "TraceCounts": "client.trace.dispatcher",
    "TransactionProducer": "client.send.transaction_producer",
    "TransactionResult": "client.send_result",
    "TransactionState": "protocol.headers.transactions",
    "UNKNOWN": "client.listener.outcomes",
    "AccessDenied": "errors",
    "BrokerError": "errors",
    "ClientError": "errors",
    "ConnectFailed": "errors",
    "ConnectionLost": "errors",
    "InvalidMessage": "errors",
    "NoRoute": "errors",
    "NotSupported": "errors",
    "PayloadError": "errors",
    "PyroMQError": "errors",
    "RemotingError": "errors",
    "RequestTimeout": "errors",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from pyromq.protocol.release import release

        return release()
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'pyromq' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"pyromq.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "__version__"})
