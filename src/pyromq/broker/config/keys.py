"""RocketMQ's configuration keys of a broker: which have an effect here, which have none, and which are refused.

A key with an effect names the field it sets and how its text is read; `BrokerConfig` and the store's `StoreConfig`
say what the fields are for. Values come as text and go back as text (GET_BROKER_CONFIG).
"""

from __future__ import annotations

import re

from pyromq.protocol.delay_levels import parse_delay_levels, show_delay_levels
from pyromq.settings.key_table import FixedKey, Key, KeyTable
from pyromq.settings.netty_keys import CLIENT_KEYS_WITHOUT_EFFECT, SERVER_KEYS_WITHOUT_EFFECT, TLS_KEYS
from pyromq.settings.values import (
    addresses,
    at_most,
    boolean,
    choice,
    hours,
    integer,
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


def _hide(value: str) -> str:
    """Show only whether there is a secret: GET_BROKER_CONFIG answers anybody."""
    return "******" if value else ""


def _flag(field: str) -> Key:
    return Key(field, boolean, show_boolean)


def _period(field: str, low: int, high: int) -> Key:
    return Key(field, seconds(low, high), show_milliseconds)


_DAY_MS = 86_400_000

BROKER_KEYS: dict[str, Key] = {
    "namesrvAddr": Key("namesrv", addresses, ";".join),
    "brokerClusterName": Key("cluster", word),
    "brokerName": Key("name", word),
    "brokerIP1": Key("advertised_host", word),
    "brokerIP2": Key("ha_host", word),
    "listenPort": Key("port", integer(0, 65535)),
    "brokerRole": Key("role", choice("ASYNC_MASTER", "SYNC_MASTER", "SLAVE")),
    "brokerId": Key("broker_id", integer(0, 2**31 - 1)),
    "haListenPort": Key("ha_listen_port", integer(0, 65535)),
    "haMasterAddress": Key("ha_master_address", word),
    "haSendHeartbeatInterval": _period("ha_heartbeat", 1, 600_000),
    "haHousekeepingInterval": _period("ha_patience", 1, 600_000),
    "haTransferBatchSize": Key("ha_batch_size", integer(1, 4 << 20)),
    "haSlaveFallbehindMax": Key("ha_fall_behind", integer(0, 1 << 60)),
    "haSecret": Key("ha_secret", word, _hide),
    "slaveTimeout": _period("slave_timeout", 1, 86_400_000),
    "pyromqWaitForSlave": _period("slave_patience", 0, _DAY_MS),
    "pyromqHaKeepBytes": Key("ha_keep_bytes", integer(0, 1 << 60)),
    "failover": Key("failover", word),
    "failoverMayLose": _flag("failover_may_lose"),
    "failoverLease": _period("failover_lease", 2_000, 60_000),
    "failoverUser": Key("failover_user", word),
    "failoverPassword": Key("failover_password", word, _hide),
    "failoverCaFile": Key("failover_ca_file", word),
    "failoverCertFile": Key("failover_cert_file", word),
    "failoverKeyFile": Key("failover_key_file", word),
    "brokerPermission": Key("permission", integer(0, 7)),
    "serverChannelMaxIdleTimeSeconds": Key("idle_timeout", integer(1, 86_400)),
    "registerNameServerPeriod": _period("registration_period", 1, _DAY_MS),
    "registerBrokerTimeoutMills": _period("registration_timeout", 1, 600_000),
    "compressedRegister": _flag("compressed_registration"),
    "regionId": Key("region", word),
    "traceOn": _flag("trace_on"),
    "traceTopicEnable": _flag("trace_topic_enabled"),
    "msgTraceTopicName": Key("trace_topic", word),
    "flushConsumerOffsetInterval": _period("offset_save_period", 1, _DAY_MS),
    "syncFlushTimeout": _period("sync_flush_timeout", 1, _DAY_MS),
    "cleanResourceInterval": _period("cleaning_period", 100, 600_000),
    "longPollingEnable": _flag("long_polling"),
    "shortPollingTimeMills": _period("short_polling_time", 1, _DAY_MS),
    "enablePropertyFilter": _flag("property_filter"),
    "filterSupportRetry": _flag("filter_retries"),
    "filterDataCleanTimeSpan": _period("filter_keep_time", 1, 2**53),
    "autoCreateTopicEnable": _flag("auto_create_topics"),
    "defaultTopicQueueNums": Key("default_topic_queues", integer(1, 65_535)),
    "autoCreateSubscriptionGroup": _flag("auto_create_groups"),
    "clusterTopicEnable": _flag("cluster_topic_enabled"),
    "brokerTopicEnable": _flag("broker_topic_enabled"),
    "slaveReadEnable": _flag("slave_read"),
    "storeReplyMessageEnable": _flag("store_replies"),
    "notifyConsumerIdsChangedEnable": _flag("notify_consumer_changes"),
    "transactionTimeOut": _period("transaction_timeout", 0, _DAY_MS),
    "transactionCheckMax": Key("transaction_check_max", integer(1, _INT_MAX)),
    "transactionCheckInterval": _period("transaction_check_interval", 1, _DAY_MS),
    "rejectTransactionMessage": _flag("reject_transactions"),
    "brokerFastFailureEnable": _flag("fast_failure"),
    "waitTimeMillsInSendQueue": _period("send_wait_limit", 1, _DAY_MS),
    "osPageCacheBusyTimeOutMills": _period("slow_write_limit", 1, _DAY_MS),
    "startAcceptSendRequestTimeStamp": Key("accept_sends_from_ms", integer(0, 2**63 - 1)),
    "pyromqFilterFunctions": Key("filter_functions", functions, _show_functions),
    "pyromqMaxTopics": Key("max_topics", integer(1, _INT_MAX)),
    "pyromqMaxGroups": Key("max_groups", integer(1, _INT_MAX)),
    "pyromqMaxHeldPulls": Key("max_held_pulls", integer(1, _INT_MAX)),
}

STORE_KEYS: dict[str, Key] = {
    "storePathRootDir": Key("root", single_directory),
    "storePathCommitLog": Key("commit_log", single_directory),
    "mappedFileSizeCommitLog": Key("commit_log_file_size", integer(1 << 16, 1 << 40)),
    "mappedFileSizeConsumeQueue": Key("consume_queue_file_size", integer(20, 1 << 40)),
    "messageIndexEnable": _flag("message_index"),
    "maxHashSlotNum": Key("max_hash_slots", integer(1, _INT_MAX)),
    "maxIndexNum": Key("max_index_entries", integer(2, _INT_MAX)),
    "maxMsgsNumBatch": Key("max_query_count", integer(1, 65_536)),
    "defaultQueryMaxNum": Key("unique_key_query_count", integer(1, 65_536)),
    "maxMessageSize": Key("max_message_size", integer(1, 15 << 20)),
    "flushDiskType": Key("flush_disk_type", choice("ASYNC_FLUSH", "SYNC_FLUSH")),
    "flushIntervalCommitLog": Key("flush_interval_ms", at_most(LONGEST_FLUSH_INTERVAL_MS)),
    "fileReservedTime": Key("file_reserved_hours", integer(0, 1_000_000)),
    "deleteWhen": Key("delete_when", hours, show_hours),
    "diskMaxUsedSpaceRatio": Key("disk_max_used_space_ratio", integer(10, 95)),
    "diskSpaceCleanForciblyRatio": Key("disk_space_clean_forcibly_ratio", ratio),
    "diskSpaceWarningLevelRatio": Key("disk_space_warning_level_ratio", ratio),
    "cleanFileForciblyEnable": _flag("clean_file_forcibly"),
    "maxStoreBytes": Key("max_store_bytes", integer(0, 1 << 60)),
    "accessMessageInMemoryMaxRatio": Key("access_message_in_memory_max_ratio", integer(0, 100)),
    "maxTransferCountOnMessageInMemory": Key("max_transfer_count_in_memory", integer(1, 65_536)),
    "maxTransferBytesOnMessageInMemory": Key("max_transfer_bytes_in_memory", integer(1, 8 << 20)),
    "maxTransferCountOnMessageInDisk": Key("max_transfer_count_in_disk", integer(1, 65_536)),
    "maxTransferBytesOnMessageInDisk": Key("max_transfer_bytes_in_disk", integer(1, 8 << 20)),
    "messageDelayLevel": Key("delay_levels_ms", parse_delay_levels, show_delay_levels),
}

FIXED_KEYS: dict[str, FixedKey] = {
    "aclEnable": FixedKey("false", "access control comes later"),
    "enableDLegerCommitLog": FixedKey("false", "DLedger is not part of PyroMQ"),
    "enableMultiDispatch": FixedKey("false", "light message queues are not supported"),
    "enableLmq": FixedKey("false", "light message queues are not supported"),
    "filterServerNums": FixedKey("0", "filter servers are not part of PyroMQ; SQL92 expressions filter"),
    "readOnlyCommitLogStorePaths": FixedKey("", "several commit log directories are not supported"),
    **TLS_KEYS,
}

# Every other key of RocketMQ 4.0 to 4.9. The last paragraph is of 3.x: 4.x no longer reads them, but many files have
# them.
_WITHOUT_EFFECT = """
rocketmqHome configBlackList forceRegister fetchNamesrvAddrByAddressServer rmqAddressServerDomain
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
WITHOUT_EFFECT = SERVER_KEYS_WITHOUT_EFFECT | CLIENT_KEYS_WITHOUT_EFFECT | frozenset(_WITHOUT_EFFECT.split())

# `maped` was RocketMQ's own spelling until 4.5.1, and is still that of some keys; others write these correctly.
OLD_SPELLINGS: dict[str, str] = {
    "mapedFileSizeCommitLog": "mappedFileSizeCommitLog",
    "mapedFileSizeConsumeQueue": "mappedFileSizeConsumeQueue",
    "mapedFileSizeConsumeQueueExt": "mappedFileSizeConsumeQueueExt",
    "warmMappedFileEnable": "warmMapedFileEnable",
    "flushLeastPagesWhenWarmMappedFile": "flushLeastPagesWhenWarmMapedFile",
    "destroyMappedFileIntervalForcibly": "destroyMapedFileIntervalForcibly",
}

BROKER_TABLE = KeyTable(
    keys=BROKER_KEYS | STORE_KEYS, fixed=FIXED_KEYS, without_effect=WITHOUT_EFFECT, old_spellings=OLD_SPELLINGS
)
