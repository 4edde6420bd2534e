"""RocketMQ's configuration keys of a broker: which have an effect here, which have none, and which are refused.

A key with an effect names the field it sets and how its text is read; `BrokerConfig` and the store's `StoreConfig`
say what the fields are for. Values come as text and go back as text (GET_BROKER_CONFIG).
"""

from __future__ import annotations

import re

from pyromq.access.address_patterns import any_matcher
from pyromq.broker.config.limits import LIMIT_KEYS
from pyromq.protocol.delay_levels import parse_delay_levels, show_delay_levels
from pyromq.settings.key_table import FixedKey, Key, KeyTable
from pyromq.settings.netty_keys import (
    CLIENT_KEYS_WITHOUT_EFFECT,
    CLIENT_TLS_KEYS,
    SERVER_KEYS_WITHOUT_EFFECT,
    SERVER_TLS_KEYS,
    TLS_OLD_SPELLINGS,
    TLS_WITHOUT_EFFECT,
)
from pyromq.settings.values import (
    addresses,
    at_most,
    boolean,
    choice,
    hours,
    integer,
    path,
    ratio,
    seconds,
    show_boolean,
    show_hours,
    show_milliseconds,
    single_directory,
    word,
)
from pyromq.store.config import LONGEST_FLUSH_INTERVAL_MS

_INT_MAX = 2**31 - 1
_FUNCTION = re.compile(r"\w+(\.\w+)*:\w+(\.\w+)*")


def functions(value: str) -> tuple[tuple[str, str], ...]:
    """Read `name=module:function;name=module:function`."""
    found: dict[str, str] = {}
    for part in filter(None, map(str.strip, value.split(";"))):
        name, _, place = (piece.strip() for piece in part.partition("="))
        if not name or name in found or not _FUNCTION.fullmatch(place):
            raise ValueError(f"must be name=module:function;… with each name once, and {part!r} is not that")
        found[name] = place
    return tuple(found.items())


def _show_functions(value: tuple[tuple[str, str], ...]) -> str:
    return ";".join(f"{name}={place}" for name, place in value)


def address_patterns(value: str) -> tuple[str, ...]:
    """Read `address;address`, each a pattern as in a white list."""
    found = tuple(part.strip() for part in value.split(";") if part.strip())
    any_matcher(list(found))
    return found


def _hide(value: str) -> str:
    """Show only whether there is a secret: GET_BROKER_CONFIG answers anybody."""
    return "******" if value else ""


def _flag(field: str, help: str) -> Key:
    return Key(field, boolean, show_boolean, help)


def _period(field: str, low: int, high: int, help: str) -> Key:
    return Key(field, seconds(low, high), show_milliseconds, help)


_DAY_MS = 86_400_000

BROKER_KEYS: dict[str, Key] = {
    "rocketmqHome": Key(
        "home", path, help="the directory with `conf/plain_acl.yml`; by default that of `--data` ([acl.md](acl.md))"
    ),
    "aclEnable": _flag("acl_enabled", "every request needs an account and the right ([security.md](security.md))"),
    "pyromqAclTrustWhiteList": _flag("acl_trusts_white_list", "an address in a white list needs no signature"),
    "pyromqAclRequireTls": _flag("acl_requires_tls", "signed requests need TLS: nobody can send them again"),
    "pyromqAclCompatible": _flag("acl_compatible", "decide about rights exactly as RocketMQ 4.9"),
    "pyromqAuditLog": Key(
        "audit_log", path, help="the file of the audit log; by default `audit/audit.jsonl` in `storePathRootDir`"
    ),
    **SERVER_TLS_KEYS,
    **CLIENT_TLS_KEYS,
    "namesrvAddr": Key("namesrv", addresses, ";".join, help="name servers to register at: `host:port;host:port`"),
    "brokerClusterName": Key("cluster", word, help="the cluster"),
    "brokerName": Key("name", word, help="the name; master and slaves of one log share it"),
    "brokerIP1": Key(
        "advertised_host",
        word,
        help="what clients connect to, an address or a name; by default the address listened on",
    ),
    "brokerIP2": Key("ha_host", word, help="what slaves connect to; by default the same"),
    "listenPort": Key("port", integer(0, 65535), help="the port; the fast port is two below it"),
    "brokerRole": Key(
        "role",
        choice("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),
        help="`ASYNC_MASTER`, `SYNC_MASTER` (a send waits for a slave) or `SLAVE`",
    ),
    "brokerId": Key("broker_id", integer(0, 2**31 - 1), help="0 for a master; slaves of one name have different ones"),
    "haListenPort": Key(
        "ha_listen_port", integer(0, 65535), help="the port for slaves; by default one above `listenPort`"
    ),
    "haMasterAddress": Key(
        "ha_master_address", word, help="where a slave finds that port; by default the name server tells"
    ),
    "haSendHeartbeatInterval": _period("ha_heartbeat", 1, 600_000, "time between two signs of life"),
    "haHousekeepingInterval": _period("ha_patience", 1, 600_000, "how long the other side may be silent"),
    "haTransferBatchSize": Key(
        "ha_batch_size", integer(1, 4 << 20), help="bytes of one transfer to a slave of Apache's"
    ),
    "haSlaveFallbehindMax": Key(
        "ha_fall_behind", integer(0, 1 << 60), help="bytes that a slave may be behind and still count for `SYNC_MASTER`"
    ),
    "haSecret": Key("ha_secret", word, _hide, help="what a slave has to know"),
    "pyromqHaAllow": Key(
        "ha_allowed",
        address_patterns,
        ";".join,
        help="addresses of slaves that need no `haSecret`: `10.0.0.7;10.0.1.*`",
    ),
    "slaveTimeout": _period(
        "slave_timeout", 1, 86_400_000, "how long a send waits for a slave before FLUSH_SLAVE_TIMEOUT"
    ),
    "pyromqWaitForSlave": _period(
        "slave_patience",
        0,
        _DAY_MS,
        "how long a master that lost messages waits for its slave; by default `60000` if `SYNC_MASTER`, else `0`",
    ),
    "pyromqHaKeepBytes": Key(
        "ha_keep_bytes",
        integer(0, 1 << 60),
        help="bytes of the log that are kept beyond their time for a slave that copies them",
    ),
    "pyromqHaCatchUpBytes": Key(
        "ha_catch_up_rate",
        integer(0, 1 << 40),
        help="bytes that a slave far behind gets in a second, besides twice what is written; `0`: no limit",
    ),
    "failover": Key(
        "failover", word, help="the etcd through which brokers of one name elect their master: `etcd://host:port,…`"
    ),
    "failoverMayLose": _flag(
        "failover_may_lose", "allow `failover` with `ASYNC_MASTER`, which loses what no slave has"
    ),
    "failoverLease": _period(
        "failover_lease", 2_000, 60_000, "how long a master may show no sign of life before another is elected"
    ),
    "failoverUser": Key("failover_user", word, help="the account at etcd"),
    "failoverPassword": Key("failover_password", word, _hide, help="its password"),
    "failoverCaFile": Key(
        "failover_ca_file", word, help="the certificates by which etcd is known; with it TLS is spoken"
    ),
    "failoverCertFile": Key("failover_cert_file", word, help="the certificate that etcd is shown"),
    "failoverKeyFile": Key("failover_key_file", word, help="its key"),
    "brokerPermission": Key(
        "permission", integer(0, 7), help="4 read, 2 write, 6 both; what is missing here, no topic of this broker has"
    ),
    "pyromqWritesPaused": _flag(
        "writes_paused", "refuse sends, and register no topic as writable ([operations.md](operations.md))"
    ),
    "serverChannelMaxIdleTimeSeconds": Key(
        "idle_timeout", integer(1, 86_400), help="seconds after which a silent connection is closed"
    ),
    "registerNameServerPeriod": _period(
        "registration_period", 1, _DAY_MS, "time between two registrations, kept within 10 s and 60 s"
    ),
    "registerBrokerTimeoutMills": _period("registration_timeout", 1, 600_000, "how long to wait for a name server"),
    "compressedRegister": _flag("compressed_registration", "compress registrations"),
    "regionId": Key("region", word, help="a name that producers get with every answer"),
    "traceOn": _flag("trace_on", "let clients trace their sends"),
    "traceTopicEnable": _flag("trace_topic_enabled", "hold the topic of traces"),
    "msgTraceTopicName": Key("trace_topic", word, help="that topic"),
    "flushConsumerOffsetInterval": _period(
        "offset_save_period", 1, _DAY_MS, "time between two saves of committed offsets"
    ),
    "syncFlushTimeout": _period(
        "sync_flush_timeout", 1, _DAY_MS, "how long a send waits for a flush, under `SYNC_FLUSH`"
    ),
    "cleanResourceInterval": _period("cleaning_period", 100, 600_000, "time between two checks"),
    "longPollingEnable": _flag("long_polling", "let a pull wait for messages as long as it asks"),
    "shortPollingTimeMills": _period("short_polling_time", 1, _DAY_MS, "how long it waits otherwise"),
    "enablePropertyFilter": _flag("property_filter", "filter by SQL92 expressions; `true` in `pyromq up`"),
    "filterSupportRetry": _flag("filter_retries", "filter messages again when they are redelivered"),
    "filterDataCleanTimeSpan": _period(
        "filter_keep_time", 1, 2**53, "how long a filter is kept that no consumer asks for"
    ),
    "autoCreateTopicEnable": _flag("auto_create_topics", "a send may create its topic"),
    "defaultTopicQueueNums": Key("default_topic_queues", integer(1, 65_535), help="queues of a created topic, at most"),
    "autoCreateSubscriptionGroup": _flag("auto_create_groups", "a consumer may create its group"),
    "clusterTopicEnable": _flag("cluster_topic_enabled", "allow the topic that is named after the cluster"),
    "brokerTopicEnable": _flag("broker_topic_enabled", "allow the topic that is named after the broker"),
    "slaveReadEnable": _flag("slave_read", "tell consumers that are far behind to read from a slave"),
    "storeReplyMessageEnable": _flag("store_replies", "store replies, besides handing them to who waits"),
    "notifyConsumerIdsChangedEnable": _flag(
        "notify_consumer_changes", "tell members of a group when one joins or leaves"
    ),
    "transactionTimeOut": _period("transaction_timeout", 0, _DAY_MS, "a younger half message is not asked about"),
    "transactionCheckMax": Key(
        "transaction_check_max", integer(1, _INT_MAX), help="questions before a transaction is given up"
    ),
    "transactionCheckInterval": _period(
        "transaction_check_interval", 1, _DAY_MS, "time between two rounds of questions"
    ),
    "rejectTransactionMessage": _flag("reject_transactions", "refuse transactional messages"),
    "brokerFastFailureEnable": _flag("fast_failure", "refuse sends while requests wait too long"),
    "waitTimeMillsInSendQueue": _period("send_wait_limit", 1, _DAY_MS, "how long that is"),
    "osPageCacheBusyTimeOutMills": _period(
        "slow_write_limit", 1, _DAY_MS, "sends are refused while a write of the log takes longer"
    ),
    "startAcceptSendRequestTimeStamp": Key(
        "accept_sends_from_ms", integer(0, 2**63 - 1), help="accept sends from this time on, in ms since 1970"
    ),
    "pyromqFilterFunctions": Key(
        "filter_functions",
        functions,
        _show_functions,
        help="functions for consumers: `name=module:function;…` ([filter_functions.md](filter_functions.md))",
    ),
    **LIMIT_KEYS,
}

STORE_KEYS: dict[str, Key] = {
    "storePathRootDir": Key("root", single_directory, help="the directory; `--data DIR` means `DIR/store`"),
    "storePathCommitLog": Key(
        "commit_log", single_directory, help="the directory of the log; by default `commitlog` below the root"
    ),
    "mappedFileSizeCommitLog": Key(
        "commit_log_file_size", integer(1 << 16, 1 << 40), help="bytes of a file of the log"
    ),
    "mappedFileSizeConsumeQueue": Key(
        "consume_queue_file_size", integer(20, 1 << 40), help="bytes of a file of a consume queue, 20 for each message"
    ),
    "messageIndexEnable": _flag("message_index", "find messages by key"),
    "maxHashSlotNum": Key(
        "max_hash_slots", integer(1, _INT_MAX), help="slots of an index file; an existing index keeps its own"
    ),
    "maxIndexNum": Key("max_index_entries", integer(2, _INT_MAX), help="entries of an index file; likewise"),
    "maxMsgsNumBatch": Key("max_query_count", integer(1, 65_536), help="messages of an answer to a query by key"),
    "defaultQueryMaxNum": Key(
        "unique_key_query_count", integer(1, 65_536), help="messages of an answer to a query by unique key"
    ),
    "maxMessageSize": Key("max_message_size", integer(1, 15 << 20), help="bytes of the largest body"),
    "flushDiskType": Key("flush_disk_type", choice("ASYNC_FLUSH", "SYNC_FLUSH"), help="see above"),
    "flushIntervalCommitLog": Key(
        "flush_interval_ms", at_most(LONGEST_FLUSH_INTERVAL_MS), help="pause between two flushes; at most 900"
    ),
    "pyromqQuickFlush": Key(
        "quick_flush_us",
        integer(0, 1_000_000),
        help="microseconds; under `SYNC_FLUSH` a disk that needs less is flushed without a thread; `0`: never",
    ),
    "pyromqPreparedBytes": Key(
        "prepared_bytes",
        integer(0, 16 << 20),
        help="bytes of zeros written ahead of the log under `SYNC_FLUSH`; `0`: none, as for btrfs and ZFS",
    ),
    "fileReservedTime": Key(
        "file_reserved_hours", integer(0, 1_000_000), help="hours that a file is kept after its last message"
    ),
    "deleteWhen": Key(
        "delete_when",
        hours,
        show_hours,
        help="hours of the day, local time, in which expired files are deleted: `04;16`",
    ),
    "diskMaxUsedSpaceRatio": Key(
        "disk_max_used_space_ratio",
        integer(10, 95),
        help="percent of the disk above which expired files are deleted at any hour",
    ),
    "diskSpaceCleanForciblyRatio": Key(
        "disk_space_clean_forcibly_ratio",
        ratio,
        help="part of the disk above which the oldest files are deleted, expired or not",
    ),
    "diskSpaceWarningLevelRatio": Key(
        "disk_space_warning_level_ratio", ratio, help="part of the disk above which no message is accepted"
    ),
    "cleanFileForciblyEnable": _flag("clean_file_forcibly", "whether files that have not expired are ever deleted"),
    "maxStoreBytes": Key("max_store_bytes", integer(0, 1 << 60), help="bytes of the log, 0 for any number"),
    "accessMessageInMemoryMaxRatio": Key(
        "access_message_in_memory_max_ratio",
        integer(0, 100),
        help="percent of the memory in which the end of the log counts as cached",
    ),
    "maxTransferCountOnMessageInMemory": Key(
        "max_transfer_count_in_memory", integer(1, 65_536), help="messages of one pull from there"
    ),
    "maxTransferBytesOnMessageInMemory": Key(
        "max_transfer_bytes_in_memory", integer(1, 8 << 20), help="bytes of one pull from there"
    ),
    "maxTransferCountOnMessageInDisk": Key(
        "max_transfer_count_in_disk", integer(1, 65_536), help="messages of one pull further back"
    ),
    "maxTransferBytesOnMessageInDisk": Key(
        "max_transfer_bytes_in_disk", integer(1, 8 << 20), help="bytes of one pull further back"
    ),
    "messageDelayLevel": Key(
        "delay_levels_ms",
        parse_delay_levels,
        show_delay_levels,
        help="the delay levels ([delay_levels.md](delay_levels.md))",
    ),
}

FIXED_KEYS: dict[str, FixedKey] = {
    "enableDLegerCommitLog": FixedKey("false", "DLedger is not part of PyroMQ"),
    "enableMultiDispatch": FixedKey("false", "light message queues are not supported"),
    "enableLmq": FixedKey("false", "light message queues are not supported"),
    "filterServerNums": FixedKey("0", "filter servers are not part of PyroMQ; SQL92 expressions filter"),
    "readOnlyCommitLogStorePaths": FixedKey("", "several commit log directories are not supported"),
}

# Every other key of RocketMQ 4.0 to 4.9. The last paragraph is of 3.x: 4.x no longer reads them, but many files have
# them.
_WITHOUT_EFFECT = """
configBlackList forceRegister fetchNamesrvAddrByAddressServer rmqAddressServerDomain
rmqAddressServerSubGroup isolateLogEnable messageStorePlugIn

enableConsumeQueueExt mappedFileSizeConsumeQueueExt bitMapLengthConsumeQueueExt messageIndexSafe
transientStorePoolEnable transientStorePoolSize fastFailIfNoBufferInStorePool warmMapedFileEnable
flushLeastPagesWhenWarmMapedFile useReentrantLockWhenPutMessage checkCRCOnRecover maxLmqConsumeQueueNum
duplicationEnable putMsgIndexHightWater debugLockEnable diskFallRecorded

flushCommitLogTimed flushCommitLogLeastPages flushCommitLogThoroughInterval commitIntervalCommitLog
commitCommitLogLeastPages commitCommitLogThoroughInterval flushIntervalConsumeQueue flushConsumeQueueLeastPages
flushConsumeQueueThoroughInterval flushConsumerOffsetHistoryInterval flushDelayOffsetInterval
deleteCommitLogFilesInterval deleteConsumeQueueFilesInterval destroyMapedFileIntervalForcibly
redeleteHangedFileInterval

offsetCheckInSlave dLegerGroup dLegerPeers dLegerSelfId preferredLeaderId enableBatchPush
storePathDLedgerCommitLog

transferMsgByHeap disableConsumeIfConsumerReadSlowly consumerFallbehindThreshold enableScheduleAsyncDeliver
scheduleAsyncDeliverMaxPendingLimit scheduleAsyncDeliverMaxResendNum2Blocked enableScheduleMessageStats
enableCalcFilterBitMap expectConsumerNumUseFilter maxErrorRateOfBloomFilter enableDetailStat autoDeleteUnusedStats
highSpeedMode maxDelayTime commercialEnable commercialTimerCount commercialTransCount commercialBigCount
commercialBaseCount

sendMessageThreadPoolNums putMessageFutureThreadPoolNums pullMessageThreadPoolNums processReplyMessageThreadPoolNums
queryMessageThreadPoolNums adminBrokerThreadPoolNums clientManageThreadPoolNums consumerManageThreadPoolNums
heartbeatThreadPoolNums endTransactionThreadPoolNums sendThreadPoolQueueCapacity putThreadPoolQueueCapacity
pullThreadPoolQueueCapacity replyThreadPoolQueueCapacity queryThreadPoolQueueCapacity
clientManagerThreadPoolQueueCapacity consumerManagerThreadPoolQueueCapacity heartbeatThreadPoolQueueCapacity
endTransactionPoolQueueCapacity waitTimeMillsInPullQueue waitTimeMillsInHeartbeatQueue waitTimeMillsInTransactionQueue

storePathConsumeQueue storePathIndex storeCheckpoint storePathCheckpoint abortFile storePathAbort
checkTransactionMessageEnable
"""
WITHOUT_EFFECT = (
    SERVER_KEYS_WITHOUT_EFFECT | CLIENT_KEYS_WITHOUT_EFFECT | TLS_WITHOUT_EFFECT | frozenset(_WITHOUT_EFFECT.split())
)

# `maped` was RocketMQ's own spelling until 4.5.1, and is still that of some keys; others write these correctly.
OLD_SPELLINGS: dict[str, str] = {
    "mapedFileSizeCommitLog": "mappedFileSizeCommitLog",
    "mapedFileSizeConsumeQueue": "mappedFileSizeConsumeQueue",
    "mapedFileSizeConsumeQueueExt": "mappedFileSizeConsumeQueueExt",
    "warmMappedFileEnable": "warmMapedFileEnable",
    "flushLeastPagesWhenWarmMappedFile": "flushLeastPagesWhenWarmMapedFile",
    "destroyMappedFileIntervalForcibly": "destroyMapedFileIntervalForcibly",
    **TLS_OLD_SPELLINGS,
}

BROKER_TABLE = KeyTable(
    keys=BROKER_KEYS | STORE_KEYS, fixed=FIXED_KEYS, without_effect=WITHOUT_EFFECT, old_spellings=OLD_SPELLINGS
)
