"""RocketMQ's configuration keys: which have an effect here, which have none, and which would break a promise.

A key with an effect names the field it sets and how its text is read; `BrokerConfig` and the store's `StoreConfig`
say what the fields are for. Values come as text and go back as text (GET_BROKER_CONFIG).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pyromq.protocol.delay_levels import parse_delay_levels, show_delay_levels
from pyromq.store.config import LONGEST_FLUSH_INTERVAL_MS

_INT_MAX = 2**31 - 1
_FUNCTION = re.compile(r"\w+(\.\w+)*:\w+(\.\w+)*")


class Key(NamedTuple):
    """One configuration key: the field it sets, how its text is read, and how the field is shown again."""

    field: str
    read: Callable[[str], Any]
    show: Callable[[Any], str] = str


def integer(low: int, high: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from `low` to `high`."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ValueError(f"wants a whole number, not {text!r}") from None
        if not low <= number <= high:
            raise ValueError(f"must lie between {low} and {high}, and is {number}")
        return number

    return read


def boolean(text: str) -> bool:
    """Read `true` or `false`; Apache takes every other word for false, we say so."""
    word = text.lower()
    if word not in ("true", "false"):
        raise ValueError(f"wants true or false, not {text!r}")
    return word == "true"


def choice(*words: str) -> Callable[[str], str]:
    """Return a reader that takes one of `words`."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"wants {' or '.join(words)}, not {text!r}")
        return text

    return read


def text(value: str) -> str:
    """Read a word that may not be empty."""
    if not value:
        raise ValueError("may not be empty")
    return value


def addresses(value: str) -> tuple[str, ...]:
    """Read `host:port;host:port`."""
    found = tuple(part.strip() for part in value.split(";") if part.strip())
    for address in found:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"wants host:port;host:port, and {address!r} is not host:port")
    return found


def hours(value: str) -> tuple[int, ...]:
    """Read hours of the day, such as `04` or `04;16`."""
    try:
        found = tuple(int(part) for part in value.split(";") if part.strip())
    except ValueError:
        found = ()
    if not found or not all(0 <= hour < 24 for hour in found):
        raise ValueError(f"wants hours such as 04 or 04;16, not {value!r}")
    return found


def _show_hours(value: tuple[int, ...]) -> str:
    return ";".join(f"{hour:02d}" for hour in value)


def functions(value: str) -> tuple[tuple[str, str], ...]:
    """Read `name=module:function;name=module:function`."""
    found: dict[str, str] = {}
    for part in filter(None, map(str.strip, value.split(";"))):
        name, _, place = (piece.strip() for piece in part.partition("="))
        if not name or name in found or not _FUNCTION.fullmatch(place):
            raise ValueError(f"wants name=module:function;… with each name once, and {part!r} is not that")
        found[name] = place
    return tuple(found.items())


def _show_functions(value: tuple[tuple[str, str], ...]) -> str:
    return ";".join(f"{name}={place}" for name, place in value)


def ratio(value: str) -> float:
    """Read a part of the whole, such as `0.85`."""
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f"wants a ratio such as 0.85, not {value!r}") from None
    if not 0.1 <= number <= 1:
        raise ValueError(f"must lie between 0.1 and 1, and is {value}")
    return number


def at_most(high: int) -> Callable[[str], int]:
    """Return a reader of positive numbers that takes a larger one for the highest: what it bounds is promised."""
    read_integer = integer(1, _INT_MAX)
    return lambda value: min(read_integer(value), high)


def single_path(value: str) -> Path:
    """Read one directory."""
    if "," in value:
        raise ValueError("several commit log directories are not supported")
    return Path(text(value))


def seconds(low: int, high: int) -> Callable[[str], float]:
    """Return a reader of milliseconds that gives seconds, as the rest of the code counts time."""
    read_integer = integer(low, high)
    return lambda value: read_integer(value) / 1000


def _show_boolean(value: bool) -> str:
    return "true" if value else "false"


def _show_milliseconds(value: float) -> str:
    return str(round(value * 1000))


def _flag(field: str) -> Key:
    return Key(field, boolean, _show_boolean)


def _period(field: str, low: int, high: int) -> Key:
    return Key(field, seconds(low, high), _show_milliseconds)


_DAY_MS = 86_400_000

BROKER_KEYS: dict[str, Key] = {
    "namesrvAddr": Key("namesrv", addresses, ";".join),
    "brokerClusterName": Key("cluster", text),
    "brokerName": Key("name", text),
    "brokerIP1": Key("advertised_host", text),
    "brokerIP2": Key("ha_host", text),
    "listenPort": Key("port", integer(0, 65535)),
    "brokerPermission": Key("permission", integer(0, 7)),
    "serverChannelMaxIdleTimeSeconds": Key("idle_timeout", integer(1, 86_400)),
    "registerNameServerPeriod": _period("registration_period", 1, _DAY_MS),
    "registerBrokerTimeoutMills": _period("registration_timeout", 1, 600_000),
    "compressedRegister": _flag("compressed_registration"),
    "regionId": Key("region", text),
    "traceOn": _flag("trace_on"),
    "traceTopicEnable": _flag("trace_topic_enabled"),
    "msgTraceTopicName": Key("trace_topic", text),
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
    "storePathRootDir": Key("root", single_path),
    "storePathCommitLog": Key("commit_log", single_path),
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
    "deleteWhen": Key("delete_when", hours, _show_hours),
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

# Keys whose value may only be the one that this version keeps; anything else would change what an answer promises.
FIXED_KEYS: dict[str, tuple[str, str]] = {
    "brokerRole": ("ASYNC_MASTER", "replication comes later"),
    "brokerId": ("0", "a master has id 0, and slaves come later"),
    "aclEnable": ("false", "access control comes later"),
    "enableDLegerCommitLog": ("false", "DLedger is not part of PyroMQ"),
    "enableMultiDispatch": ("false", "light message queues are not supported"),
    "enableLmq": ("false", "light message queues are not supported"),
    "filterServerNums": ("0", "filter servers are not part of PyroMQ; SQL92 expressions filter"),
    "useTLS": ("false", "TLS comes later"),
    "readOnlyCommitLogStorePaths": ("", "several commit log directories are not supported"),
}

_WITHOUT_EFFECT = """
rocketmqHome serverWorkerThreads serverSelectorThreads serverCallbackExecutorThreads serverOnewaySemaphoreValue
serverAsyncSemaphoreValue serverSocketSndBufSize serverSocketRcvBufSize serverSocketBacklog forceRegister
fetchNamesrvAddrByAddressServer isolateLogEnable enableConsumeQueueExt mappedFileSizeConsumeQueueExt
bitMapLengthConsumeQueueExt messageIndexSafe transientStorePoolEnable transientStorePoolSize
fastFailIfNoBufferInStorePool warmMapedFileEnable flushLeastPagesWhenWarmMapedFile useReentrantLockWhenPutMessage
checkCRCOnRecover maxLmqConsumeQueueNum duplicationEnable putMsgIndexHightWater debugLockEnable diskFallRecorded
flushCommitLogTimed flushCommitLogLeastPages flushCommitLogThoroughInterval commitIntervalCommitLog
commitCommitLogLeastPages commitCommitLogThoroughInterval flushIntervalConsumeQueue flushConsumeQueueLeastPages
flushConsumeQueueThoroughInterval flushConsumerOffsetHistoryInterval flushDelayOffsetInterval
deleteCommitLogFilesInterval deleteConsumeQueueFilesInterval
destroyMapedFileIntervalForcibly redeleteHangedFileInterval haListenPort haMasterAddress haSendHeartbeatInterval
haHousekeepingInterval haTransferBatchSize haSlaveFallbehindMax slaveTimeout offsetCheckInSlave
transferMsgByHeap disableConsumeIfConsumerReadSlowly consumerFallbehindThreshold
enableScheduleAsyncDeliver scheduleAsyncDeliverMaxPendingLimit scheduleAsyncDeliverMaxResendNum2Blocked
enableScheduleMessageStats
enableCalcFilterBitMap expectConsumerNumUseFilter maxErrorRateOfBloomFilter
enableDetailStat autoDeleteUnusedStats messageStorePlugIn highSpeedMode maxDelayTime commercialEnable
commercialTimerCount commercialTransCount commercialBigCount commercialBaseCount sendMessageThreadPoolNums
putMessageFutureThreadPoolNums pullMessageThreadPoolNums processReplyMessageThreadPoolNums queryMessageThreadPoolNums
adminBrokerThreadPoolNums clientManageThreadPoolNums consumerManageThreadPoolNums heartbeatThreadPoolNums
endTransactionThreadPoolNums sendThreadPoolQueueCapacity putThreadPoolQueueCapacity pullThreadPoolQueueCapacity
replyThreadPoolQueueCapacity queryThreadPoolQueueCapacity clientManagerThreadPoolQueueCapacity
consumerManagerThreadPoolQueueCapacity heartbeatThreadPoolQueueCapacity endTransactionPoolQueueCapacity
waitTimeMillsInPullQueue waitTimeMillsInHeartbeatQueue
waitTimeMillsInTransactionQueue
"""
WITHOUT_EFFECT: frozenset[str] = frozenset(_WITHOUT_EFFECT.split())
