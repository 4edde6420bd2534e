"""Keys of Apache's network layer, which broker.conf and namesrv.conf share; those with an effect are in the tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyromq.settings.key_table import Key
from pyromq.settings.properties_file import parse_properties, read_properties_file
from pyromq.settings.values import boolean, choice, path, show_boolean

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
_MODES: Final = ("disabled", "permissive", "enforcing")
_ASKED: Final = ("none", "optional", "require")


def _hide(value: str) -> str:
    return "******" if value else ""


SERVER_TLS_KEYS: Final[dict[str, Key]] = {
    "tls.server.mode": Key(
        "tls_mode",
        choice(*_MODES),
        help="`disabled`, `permissive` (plain connections too) or `enforcing`; without a certificate TLS is off",
    ),
    "tls.server.certPath": Key("tls_cert", path, help="the certificate, with those that lead to its root, PEM"),
    "tls.server.keyPath": Key("tls_key", path, help="its key, PEM; by default in the same file"),
    "tls.server.keyPassword": Key("tls_key_password", str, _hide, help="the password of the key"),
    "tls.server.trustCertPath": Key("tls_trust", path, help="who may sign certificates of clients, PEM"),
    "tls.server.need.client.auth": Key(
        "tls_client_auth", choice(*_ASKED), help="whether clients show a certificate: `none`, `optional`, `require`"
    ),
    "tls.test.mode.enable": Key(
        "tls_test_mode", boolean, show_boolean, help="make up a certificate if there is none, which proves nothing"
    ),
    "tls.config.file": Key("tls_config_file", path, help="a file with more settings that begin with `tls.`"),
}
CLIENT_TLS_KEYS: Final[dict[str, Key]] = {
    "tls.enable": Key(
        "tls_client_enabled", boolean, show_boolean, help="speak TLS with name servers and other brokers, slaves too"
    ),
    "tls.client.trustCertPath": Key("tls_client_trust", path, help="who may sign their certificates, PEM"),
    "tls.client.certPath": Key("tls_client_cert", path, help="the certificate that is shown to them"),
    "tls.client.keyPath": Key("tls_client_key", path, help="its key; by default in the same file"),
    "tls.client.keyPassword": Key("tls_client_key_password", str, _hide, help="the password of the key"),
    "tls.client.authServer": Key(
        "tls_client_verify", boolean, show_boolean, help="check certificates and host names; `false` only for tests"
    ),
}
TLS_WITHOUT_EFFECT: Final = frozenset({"tls.server.authClient"})
TLS_OLD_SPELLINGS: Final = {"useTLS": "tls.enable"}


def with_tls_file(values: Mapping[str, str]) -> dict[str, str]:
    """Return settings with those of `tls.config.file`, unless they are given; raise ConfigError."""
    file = values.get("tls.config.file", "").strip()
    more = parse_properties(read_properties_file(Path(file))) if file else {}
    return {**{key: value for key, value in more.items() if key.startswith("tls.")}, **values}
