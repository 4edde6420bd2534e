"""RocketMQ's configuration keys of a name server: which have an effect here, which have none, and which are refused."""

from __future__ import annotations

from pyromq.settings.key_table import FixedKey, Key, KeyTable
from pyromq.settings.netty_keys import SERVER_KEYS_WITHOUT_EFFECT, TLS_KEYS
from pyromq.settings.values import boolean, integer, path, show_boolean

NAMESRV_TABLE = KeyTable(
    keys={
        "listenPort": Key("port", integer(0, 65535)),
        "serverChannelMaxIdleTimeSeconds": Key("idle_timeout", integer(1, 86_400)),
        "orderMessageEnable": Key("order_message_enable", boolean, show_boolean),
        "kvConfigPath": Key("kv_path", path),
    },
    fixed={"clusterTest": FixedKey("false", "test clusters are not part of PyroMQ"), **TLS_KEYS},
    without_effect=SERVER_KEYS_WITHOUT_EFFECT
    | {"rocketmqHome", "configStorePath", "productEnvName", "configBlackList"},
    old_spellings={},
)
