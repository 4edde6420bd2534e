"""Keys of Apache's network layer, which broker.conf and namesrv.conf share; those with an effect are in the tables."""

from __future__ import annotations

from typing import Final

from pyromq.settings.key_table import FixedKey

SERVER_KEYS_WITHOUT_EFFECT: Final = frozenset(
    {
        "serverWorkerThreads",
        "serverSelectorThreads",
        "serverCallbackExecutorThreads",
        "serverOnewaySemaphoreValue",
        "serverAsyncSemaphoreValue",
        "serverSocketSndBufSize",
        "serverSocketRcvBufSize",
        "serverSocketBacklog",
        "serverPooledByteBufAllocatorEnable",
        "useEpollNativeSelector",
        "writeBufferHighWaterMark",
        "writeBufferLowWaterMark",
    }
)
CLIENT_KEYS_WITHOUT_EFFECT: Final = frozenset(
    {
        "clientWorkerThreads",
        "clientCallbackExecutorThreads",
        "clientOnewaySemaphoreValue",
        "clientAsyncSemaphoreValue",
        "clientChannelMaxIdleTimeSeconds",
        "clientCloseSocketIfTimeout",
        "clientPooledByteBufAllocatorEnable",
        "clientSocketSndBufSize",
        "clientSocketRcvBufSize",
        "channelNotActiveInterval",
        "connectTimeoutMillis",
    }
)
_NO_TLS = FixedKey("", "TLS comes later")
TLS_KEYS: Final[dict[str, FixedKey]] = {
    "useTLS": FixedKey("false", "TLS comes later"),
    "tls.server.mode": FixedKey("disabled", "TLS comes later"),
    **dict.fromkeys(
        (
            "tls.server.certPath",
            "tls.server.keyPath",
            "tls.server.keyPassword",
            "tls.server.trustCertPath",
            "tls.server.need.client.auth",
            "tls.server.authClient",
        ),
        _NO_TLS,
    ),
}
