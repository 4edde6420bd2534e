"""Every exception of the project: one tree, on one page.

Each class says whether trying again can help (`retriable`), so retry code lists no types.
"""

from __future__ import annotations

from typing import ClassVar

from pyromq.protocol.codes import ResponseCode


class PyroMQError(Exception):
    """The root: catch this to catch all that PyroMQ raises on purpose."""

    retriable: ClassVar[bool] = False


# --- protocol: bytes that do not mean what they should


class ProtocolError(PyroMQError):
    """Bytes or values that the protocol does not allow."""


class LocalProtocolError(ProtocolError):
    """Our side tried to send something illegal."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something illegal; the connection is beyond trust."""


class MalformedHeader(RemoteProtocolError):
    """The frame was whole, but a header field or body in it is missing or unreadable: answered, not fatal."""


# --- remoting: the network


class RemotingError(PyroMQError):
    """The network did not carry a request or its answer."""

    retriable = True
    message_id = ""
    """Of the message whose send ended so: `Producer.find` tells whether it was stored."""


class ConnectFailed(RemotingError):
    """No connection to that address."""


class ConnectionLost(RemotingError):
    """The connection went away with the request outstanding; its outcome is unknown."""


class RequestTimeout(RemotingError):
    """No answer in time; the outcome is unknown."""


# --- store: files


class StoreError(PyroMQError):
    """The store cannot do what was asked."""


class StoreLocked(StoreError):
    """Another server has this directory open."""


class StoreClosed(StoreError):
    """The store takes no more writes: it was closed, or a write failed and what is on disk is unknown."""

    retriable = True


class CorruptRecord(StoreError):
    """A stored record fails its own checks."""


class OffsetOutOfRange(StoreError):
    """No such offset in this queue or log."""


class DiskFull(StoreError):
    """No room for another message."""

    retriable = True


class MessageTooLarge(StoreError):
    """A message, its topic or its properties exceed what the format or the configuration allows."""


# --- broker: an answer with a code


class BrokerError(PyroMQError):
    """A server's answer other than success: has the response code, on either side of the wire."""

    default_code: ClassVar[ResponseCode] = ResponseCode.SYSTEM_ERROR

    def __init__(self, remark: str = "", code: int | None = None) -> None:
        super().__init__(remark)
        self.remark = remark
        self.code: int = self.default_code if code is None else code

    def __str__(self) -> str:
        try:
            name = ResponseCode(self.code).name
        except ValueError:
            name = "code"
        return f"{name} ({self.code}): {self.remark}"


class SystemBusy(BrokerError):
    """Flow control: the server is healthy but has too much to do."""

    default_code = ResponseCode.SYSTEM_BUSY
    retriable = True


class NotSupportedByServer(BrokerError):
    """The server does not know this request code."""

    default_code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED


class TopicNotFound(BrokerError):
    """No such topic, and it may not be created by sending."""

    default_code = ResponseCode.TOPIC_NOT_EXIST
    retriable = True


class NoPermission(BrokerError):
    """Broker, topic or group do not allow this."""

    default_code = ResponseCode.NO_PERMISSION
    retriable = True


class AccessDenied(BrokerError):
    """The broker's access control lets this account not do this, or does not know it."""

    def __str__(self) -> str:
        return self.remark


class MessageIllegal(BrokerError):
    """The message is too large or malformed."""

    default_code = ResponseCode.MESSAGE_ILLEGAL


class ServiceNotAvailable(BrokerError):
    """The store takes no writes now: stopping, full, failed, or a slave."""

    default_code = ResponseCode.SERVICE_NOT_AVAILABLE
    retriable = True


class GroupNotFound(BrokerError):
    """No such consumer group, and it may not be created by use."""

    default_code = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


class QueryNotFound(BrokerError):
    """Nothing is stored under what was asked for."""

    default_code = ResponseCode.QUERY_NOT_FOUND


# --- client and configuration: what the caller can mend


class ClientError(PyroMQError):
    """The call cannot be carried out as it is."""


class NoRoute(ClientError):
    """No name server knows a broker for this topic."""

    retriable = True


class InvalidMessage(ClientError):
    """The message breaks a rule that is checked before sending."""


class NotSupported(ClientError):
    """The other side, or this version, does not have this feature."""


class TaskRepeated(ClientError):
    """Spark runs a task again that may have sent messages before, where that is not wanted."""


class ConfigError(PyroMQError):
    """A configuration key or value is wrong; the text names it."""
