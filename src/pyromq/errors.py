"""Every exception of the project: one tree, on one page.

Each class says whether a retry can help (`retriable`), so retry code lists no types.
"""

from __future__ import annotations

import os
from typing import ClassVar

from pyromq.protocol.codes import ResponseCode


class PyroMQError(Exception):
    """The base class of every error that PyroMQ raises on purpose."""

    retriable: ClassVar[bool] = False


# --- protocol: malformed bytes and values


class ProtocolError(PyroMQError):
    """Bytes or values that the protocol does not allow."""


class LocalProtocolError(ProtocolError):
    """Our side tried to send something illegal."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something illegal; the connection cannot be used any more."""


class MalformedHeader(RemoteProtocolError):
    """A header field or body is missing or unreadable. The request is answered and the connection stays open."""


# --- remoting: the network


class RemotingError(PyroMQError):
    """The network did not carry a request or its answer."""

    retriable = True
    message_id = ""
    """The id of the message whose send failed; `Producer.find` shows whether it was stored."""


class CannotListen(RemotingError):
    """A server cannot have the port that it wants; `cause` is the system's error."""

    retriable = False

    def __init__(self, host: str, port: int, cause: OSError, purpose: str = "") -> None:
        reason = os.strerror(cause.errno).lower() if cause.errno and cause.errno > 0 else cause.strerror or str(cause)
        super().__init__(f"cannot listen on {host}:{port}{purpose and f' for {purpose}'}: {reason}")
        self.port = port
        self.cause = cause


class ConnectFailed(RemotingError):
    """No connection to that address could be made."""


class NoNameServer(ConnectFailed):
    """None of the name servers answers."""


class ConnectionLost(RemotingError):
    """The connection was lost before the answer; the outcome of the request is unknown."""


class RequestTimeout(RemotingError):
    """No answer arrived in time; the outcome of the request is unknown."""


# --- store: files


class StoreError(PyroMQError):
    """The store cannot do what was asked."""


class StoreLocked(StoreError):
    """Another server uses this directory."""


class StoreClosed(StoreError):
    """The store accepts no more writes: it was closed, or a write failed and the state of the disk is unknown."""

    retriable = True


class UnknownFormat(StoreError):
    """A file of ours was written by a later release, in a format that this one does not know."""

    def __init__(self, path: str, found: int, known: int) -> None:
        super().__init__(
            f"{path} has format {found}, and this release knows format {known}: start the release that wrote it"
        )


class CorruptRecord(StoreError):
    """A stored record is damaged."""


class OffsetOutOfRange(StoreError):
    """The queue or log has no such offset."""


class QueryTooLong(StoreError):
    """A search by key has looked at as much as one may, and found nothing."""


class DiskFull(StoreError):
    """The disk has no room for another message."""

    retriable = True


class MessageTooLarge(StoreError):
    """A message, its topic or its properties are larger than the format or the configuration allows."""


# --- broker: an answer with a code


class BrokerError(PyroMQError):
    """An answer other than success, with its response code; the same class on client and server."""

    default_code: ClassVar[ResponseCode] = ResponseCode.SYSTEM_ERROR

    def __init__(self, remark: str = "", code: int | None = None, *, limit: str = "") -> None:
        """`limit` is the key of the limit that was met, on a server."""
        super().__init__(remark)
        self.remark = remark
        self.code: int = self.default_code if code is None else code
        self.limit = limit

    def __str__(self) -> str:
        try:
            name = ResponseCode(self.code).name
        except ValueError:
            name = "code"
        return f"{name} ({self.code}): {self.remark}"


class SystemBusy(BrokerError):
    """Flow control: the server is healthy but overloaded."""

    default_code = ResponseCode.SYSTEM_BUSY
    retriable = True


class NotSupportedByServer(BrokerError):
    """The server does not know this request code."""

    default_code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED


class TopicNotFound(BrokerError):
    """The topic does not exist, and a send may not create it."""

    default_code = ResponseCode.TOPIC_NOT_EXIST
    retriable = True


class NoPermission(BrokerError):
    """The broker, topic or group does not permit this."""

    default_code = ResponseCode.NO_PERMISSION
    retriable = True


class AccessDenied(BrokerError):
    """Access control refused: the account lacks the right, or is unknown."""

    def __str__(self) -> str:
        return self.remark


class AccessRefused(BrokerError):
    """A server's refusal by access control, in the words by which every 4.x client knows one."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"org.apache.rocketmq.acl.common.AclException: {reason}")
        self.reason = reason


class UnknownCaller(AccessRefused):
    """The request does not show who sent it: no account, an unknown one, or a wrong signature."""


class MessageIllegal(BrokerError):
    """The message is too large or malformed."""

    default_code = ResponseCode.MESSAGE_ILLEGAL


class ServiceNotAvailable(BrokerError):
    """The broker accepts no writes now: it is stopping, full, failed, or a slave."""

    default_code = ResponseCode.SERVICE_NOT_AVAILABLE
    retriable = True


class FateUnknown(ServiceNotAvailable):
    """The broker has stored the message, and may have a successor that lacks it: sending again may double it."""


class ReplicationRefused(PyroMQError):
    """A slave cannot follow its master before an operator has decided something."""


class GroupNotFound(BrokerError):
    """The consumer group does not exist, and a consumer may not create it."""

    default_code = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


class QueryNotFound(BrokerError):
    """Nothing was found for the query."""

    default_code = ResponseCode.QUERY_NOT_FOUND


# --- client and configuration: what the caller can correct


class ClientError(PyroMQError):
    """The call is not possible in this form or state."""


class NoRoute(ClientError):
    """No name server knows a broker for this topic."""

    retriable = True


class NoMaster(NoRoute):
    """A broker has no master now: it can be read from a slave, and written when a master is back or promoted."""


class InvalidMessage(ClientError):
    """The message violates a rule that is checked before sending."""


class PayloadError(ClientError):
    """A value cannot be encoded, or a body cannot be decoded; `field` is the field that is wrong, if it is known."""

    def __init__(self, reason: str, *, field: str = "", message: str = "") -> None:
        parts = (message, f"field {field}" if field else "", reason)
        super().__init__(": ".join(part for part in parts if part))
        self.reason = reason
        self.field = field
        self.message = message
        """Which message it is: topic, place and id."""

    def about(self, message: str) -> PayloadError:
        """Return the same error with the message that it is about."""
        return PayloadError(self.reason, field=self.field, message=message)


class InvalidName(ClientError, LocalProtocolError):
    """The name of a topic, group or broker is not a legal one."""


class NotSupported(ClientError):
    """The peer or this version does not support this feature."""


class TaskRepeated(ClientError):
    """Spark repeats a task that may already have sent messages, where duplicates are not wanted."""


class ConfigError(PyroMQError):
    """A configuration key or value is wrong; the text names it."""
