"""The tables of docs/configuration.md, from the keys that the servers read.

`python -m docsite.configuration` writes them into the page, between the two marks; a test compares them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Final

from docsite.pages import ROOT
from pyromq.broker.config.broker_config import broker_config, settings_of
from pyromq.broker.config.keys import BROKER_TABLE
from pyromq.broker.config.live_settings import CHANGEABLE
from pyromq.namesrv.config import NameServerConfig
from pyromq.namesrv.keys import NAMESRV_TABLE
from pyromq.settings.key_table import Key, KeyTable, show_settings

PAGE: Final = ROOT / "docs" / "configuration.md"
BEGIN: Final = "<!-- from here on made by `python -m docsite.configuration` -->\n"

SECTIONS: Final[dict[str, str]] = {
    "Identity and network": """namesrvAddr brokerClusterName brokerName brokerIP1 brokerIP2 listenPort brokerPermission
        pyromqWritesPaused serverChannelMaxIdleTimeSeconds registerNameServerPeriod registerBrokerTimeoutMills
        compressedRegister regionId""",
    "Access control ([security.md](security.md))": """aclEnable rocketmqHome pyromqAclTrustWhiteList
        pyromqAclRequireTls pyromqAclCompatible pyromqAuditLog""",
    "TLS ([security.md](security.md#tls))": """tls.server.mode tls.server.certPath tls.server.keyPath
        tls.server.keyPassword tls.server.trustCertPath tls.server.need.client.auth tls.test.mode.enable
        tls.config.file tls.enable tls.client.trustCertPath tls.client.certPath tls.client.keyPath
        tls.client.keyPassword tls.client.authServer""",
    "Master and slaves ([ha.md](ha.md))": """brokerRole brokerId haListenPort haMasterAddress haSecret pyromqHaAllow
        haSendHeartbeatInterval haHousekeepingInterval haTransferBatchSize haSlaveFallbehindMax slaveTimeout
        pyromqHaKeepBytes pyromqHaCatchUpBytes pyromqWaitForSlave failover failoverLease failoverMayLose failoverUser
        failoverPassword failoverCaFile failoverCertFile failoverKeyFile slaveReadEnable""",
    "Store": """storePathRootDir storePathCommitLog mappedFileSizeCommitLog mappedFileSizeConsumeQueue
        messageIndexEnable maxHashSlotNum maxIndexNum maxMessageSize flushDiskType flushIntervalCommitLog
        pyromqQuickFlush pyromqPreparedBytes syncFlushTimeout flushConsumerOffsetInterval
        osPageCacheBusyTimeOutMills""",
    "Retention": """fileReservedTime deleteWhen diskMaxUsedSpaceRatio diskSpaceCleanForciblyRatio
        diskSpaceWarningLevelRatio cleanFileForciblyEnable maxStoreBytes cleanResourceInterval""",
    "Pulls and queries": """longPollingEnable shortPollingTimeMills accessMessageInMemoryMaxRatio
        maxTransferCountOnMessageInMemory maxTransferBytesOnMessageInMemory maxTransferCountOnMessageInDisk
        maxTransferBytesOnMessageInDisk maxMsgsNumBatch defaultQueryMaxNum enablePropertyFilter filterSupportRetry
        filterDataCleanTimeSpan pyromqFilterFunctions""",
    "Topics, groups, messages": """autoCreateTopicEnable defaultTopicQueueNums autoCreateSubscriptionGroup
        clusterTopicEnable brokerTopicEnable messageDelayLevel
        notifyConsumerIdsChangedEnable storeReplyMessageEnable startAcceptSendRequestTimeStamp brokerFastFailureEnable
        waitTimeMillsInSendQueue""",
    "Limits ([security.md](security.md))": """pyromqMaxTopics pyromqMaxGroups pyromqMaxQueuesPerTopic pyromqMaxHeldPulls
        pyromqMaxClientBodyBytes pyromqMaxGroupsPerClient pyromqMaxSubscriptionsPerClient pyromqMaxMembers
        pyromqMaxFilters pyromqMaxOffsetRows pyromqMaxConnections pyromqMaxConnectionsPerAddress pyromqUnsignedTimeout
        pyromqMaxFrameBytes pyromqMaxHeaderBytes pyromqFrameTimeout pyromqMaxRunningRequests pyromqMaxUnfinishedBytes
        pyromqMaxUnsentBytes""",
    "Transactions ([transactions.md](transactions.md)) and traces ([traces.md](traces.md))": """transactionTimeOut
        transactionCheckInterval transactionCheckMax rejectTransactionMessage traceOn traceTopicEnable
        msgTraceTopicName""",
}
"""Which key is in which table; one that is listed nowhere comes in a table of its own."""

_SHORT: Final = {"messageDelayLevel": "1s … 2h"}
_WIDTH: Final = 120


def generated() -> str:
    """Return the part of the page that is made here."""
    listed = [name for names in SECTIONS.values() for name in names.split()]
    others = [name for name in BROKER_TABLE.keys if name not in listed]
    defaults = settings_of(broker_config({}))
    lines = [
        "## Keys of a broker",
        "",
        *_paragraph(
            "Times are in milliseconds unless the table says otherwise. Keys that begin with `pyromq` or `failover`,"
            " and `haSecret`, are our own. A key with a star can be changed while the broker runs (`pyromq cluster"
            " config set`, `mqadmin updateBrokerConfig`); the change is kept until the file says something else. All"
            " others need a restart."
        ),
    ]
    for title, names in SECTIONS.items():
        lines += ["", f"**{title}**", "", *_table(BROKER_TABLE.keys, names.split(), defaults)]
    if others:
        lines += ["", "**Others**", "", *_table(BROKER_TABLE.keys, others, defaults)]
    lines += ["", *_idle(BROKER_TABLE)]
    keys = NAMESRV_TABLE.keys
    shown = show_settings(keys, NameServerConfig())
    lines += ["", "## Keys of a name server", "", *_table(keys, keys, shown), "", *_idle(NAMESRV_TABLE)]
    return "\n".join(lines) + "\n"


def _table(keys: Mapping[str, Key], names: Iterable[str], defaults: Mapping[str, str]) -> list[str]:
    lines = ["| key | default | meaning |", "| --- | --- | --- |"]
    for name in names:
        star = " *" if name in CHANGEABLE and keys is BROKER_TABLE.keys else ""
        default = _SHORT.get(name, defaults[name])
        lines.append(f"| `{name}`{star} | {f'`{default}`' if default else '–'} | {keys[name].help} |")
    return lines


def _idle(table: KeyTable) -> list[str]:
    fixed = [
        f"- `{key}`: only {f'`{row.value}`' if row.value else 'empty'}; {row.reason}."
        for key, row in sorted(table.fixed.items())
    ]
    lines = ["Refused with any other value, because the feature is not there:", "", *fixed, ""]
    lines += ["Known, and without an effect here; they are listed in one warning at the start:", ""]
    lines += _paragraph(", ".join(f"`{key}`" for key in sorted(table.without_effect)) + ".")
    if table.old_spellings:
        old = ", ".join(f"`{name}` (`{current}`)" for name, current in sorted(table.old_spellings.items()))
        lines += ["", *_paragraph(f"Other spellings that are accepted: {old}.")]
    return lines


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def written(page: str) -> str:
    """Return the page with its tables made again."""
    head, mark, _ = page.partition(BEGIN)
    if not mark:
        raise SystemExit(f"{PAGE} has lost its mark {BEGIN!r}")
    return f"{head}{mark}\n{generated()}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
