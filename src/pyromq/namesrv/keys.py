"""RocketMQ's configuration keys of a name server: which have an effect here, which have none, and which are refused."""

from __future__ import annotations

from pyromq.settings.key_table import FixedKey, Key, KeyTable
from pyromq.settings.netty_keys import CLIENT_TLS_KEYS, SERVER_KEYS_WITHOUT_EFFECT, SERVER_TLS_KEYS, TLS_WITHOUT_EFFECT
from pyromq.settings.port_keys import PORT_KEYS
from pyromq.settings.values import boolean, integer, path, show_boolean

_ANY = 2**31 - 1

NAMESRV_TABLE = KeyTable(
    keys={
        "listenPort": Key("port", integer(0, 65535), help="the port"),
        "serverChannelMaxIdleTimeSeconds": Key(
            "idle_timeout", integer(1, 86_400), help="seconds after which a silent connection is closed"
        ),
        "orderMessageEnable": Key(
            "order_message_enable",
            boolean,
            show_boolean,
            help="give producers of an ordered topic its order configuration",
        ),
        "kvConfigPath": Key(
            "kv_path",
            path,
            help="the file of KV settings; by default `kvConfig.json` in `--data`, else they are in memory",
        ),
        "rocketmqHome": Key("home", path, help="the directory with `conf/plain_acl.yml`; by default that of `--data`"),
        "aclEnable": Key(
            "acl_enabled",
            boolean,
            show_boolean,
            help="every request needs an account and the right ([security.md](security.md))",
        ),
        "pyromqAclTrustWhiteList": Key(
            "acl_trusts_white_list", boolean, show_boolean, help="an address in a white list needs no signature"
        ),
        "pyromqAclRequireTls": Key(
            "acl_requires_tls", boolean, show_boolean, help="signed requests need TLS: nobody can send them again"
        ),
        "pyromqAclCompatible": Key(
            "acl_compatible", boolean, show_boolean, help="decide as RocketMQ 4.9, whose name server lets everybody in"
        ),
        "pyromqAuditLog": Key(
            "audit_log", path, help="the file of the audit log; by default `audit/audit.jsonl` in `--data`"
        ),
        "pyromqMaxTopics": Key("max_topics", integer(1, _ANY), help="topics of all brokers together"),
        "pyromqMaxBrokers": Key(
            "max_brokers", integer(1, _ANY), help="broker names, clusters, and members of one broker name"
        ),
        "pyromqMaxKvPairs": Key("max_kv_pairs", integer(1, _ANY), help="number of KV settings"),
        "pyromqMaxKvCharacters": Key(
            "max_kv_characters", integer(1, _ANY), help="characters of all KV settings: each change writes all of them"
        ),
        "pyromqMaxRegistrationBytes": Key(
            "max_registration_bytes", integer(1 << 10, 16 << 20), help="bytes of a registration"
        ),
        "pyromqMaxRegisteredTopics": Key("max_registered_topics", integer(1, 300_000), help="topics of a registration"),
        **PORT_KEYS,
        **SERVER_TLS_KEYS,
    },
    fixed={"clusterTest": FixedKey("false", "test clusters are not part of PyroMQ")},
    without_effect=frozenset(
        {
            *SERVER_KEYS_WITHOUT_EFFECT,
            *CLIENT_TLS_KEYS,
            *TLS_WITHOUT_EFFECT,
            "configStorePath",
            "productEnvName",
            "configBlackList",
            "useTLS",
        }
    ),
    old_spellings={},
)
