"""What /varz and request 28 show of a broker: renderings of one registry of figures."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pyromq.broker
from pyromq.broker.server import Broker
from pyromq.broker.stats.runtime_info import runtime_table
from pyromq.figures import Kind
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.testing import TestClock
from tests.broker.helpers import Peer

RUNTIME_NAMES = """
sendThreadPoolQueueSize pullThreadPoolQueueSize queryThreadPoolQueueSize EndTransactionQueueSize
sendThreadPoolQueueCapacity pullThreadPoolQueueCapacity queryThreadPoolQueueCapacity
EndTransactionThreadPoolQueueCapacity sendThreadPoolQueueHeadWaitTimeMills pullThreadPoolQueueHeadWaitTimeMills
queryThreadPoolQueueHeadWaitTimeMills pageCacheLockTimeMills dispatchBehindBytes remainTransientStoreBufferNumbs
putMessageEntireTimeMax putMessageFailedTimes putMessageDistributeTime dispatchMaxBuffer putLatency99 putLatency999
brokerVersion brokerVersionDesc bootTimestamp runtime startAcceptSendRequestTimeStamp commitLogMinOffset
commitLogMaxOffset remainHowManyDataToFlush commitLogDiskRatio commitLogDiskRatio_LOG consumeQueueDiskRatio
commitLogDirCapacity earliestMessageTimeStamp putMessageTimesTotal putMessageSizeTotal putMessageAverageSize putTps
getTransferedTps getFoundTps getMissTps getTotalTps getMessageEntireTimeMax msgPutTotalYesterdayMorning
msgPutTotalTodayMorning msgPutTotalTodayNow msgGetTotalYesterdayMorning msgGetTotalTodayMorning msgGetTotalTodayNow
"""
LEVELS = [f"scheduleMessageOffset_{level}" for level in range(1, 19)]
VARZ_NAMES = """
lane
name cluster address registered_at connections topics groups consumer_groups_online held_pulls messages_put bytes_put
messages_got bytes_got pulls_found pulls_missed longest_get_ms replies_taken replies_not_taken backward_commits
filter_function_errors groups_subscribing_differently commit_log_min_offset commit_log_max_offset
commit_log_flushed_offset writable flush_disk_type unflushed_bytes unflushed_ms max_unflushed_ms damaged_ranges
damaged_messages_left_out disk_used_percent transactions_open transactions_committed transactions_rolled_back
disk_fetches disk_waiting invisible_bytes write_p99_ms write_p999_ms
transactions_ended_again transaction_checks transactions_given_up timed_messages_waiting timed_messages_delivered
timed_messages_max_late_ms sends_refused_for_waiting sends_refused_for_slow_writes sends_refused_while_paused
longest_round_ms longest_write_ms delayed_messages_waiting delayed_messages_delivered delayed_messages_max_late_ms
role epoch in_sync in_sync_count slaves_connected slave_lag_bytes slave_lag_seconds replication_log_share
last_failover_ms last_failover_seconds requests_refused problem metrics_left_out
connections_closed requests_over_limit unfinished_bytes unsent_bytes group_members offset_rows filters
"""


async def test_runtime_information_has_rocketmqs_names_and_texts(peer: Peer, broker: Broker, clock: TestClock) -> None:
    for _ in range(3):
        await peer.send()
    await peer.pull()
    await peer.pull(queue_offset=3, expect=ResponseCode.PULL_NOT_FOUND)
    await clock.advance_async(seconds=21)
    body = (await peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body
    table = json.loads(body)["table"]
    log = str(broker.config.store.commit_log_path)
    assert list(table) == [name.replace("_LOG", f"_{log}") for name in RUNTIME_NAMES.split()] + LEVELS
    size = broker.store.max_physical_offset
    shown = {
        "brokerVersion": "409",
        "runtime": "[ 0 days, 0 hours, 0 minutes, 21 seconds ]",
        "commitLogMaxOffset": str(size),
        "putMessageTimesTotal": "3",
        "putMessageSizeTotal": str(size),
        "putMessageAverageSize": str(size / 3),
        "putTps": "0.0 0.0 0.0",
        "msgGetTotalTodayNow": "3",
        "scheduleMessageOffset_18": "0,0",
        "sendThreadPoolQueueHeadWaitTimeMills": "0",
    }
    assert {name: table[name] for name in shown} == shown
    assert table["remainHowManyDataToFlush"].endswith(" B")
    assert table["commitLogDirCapacity"].startswith("Total : ")


async def test_varz_has_its_names(broker: Broker) -> None:
    assert set(broker.http_info()) == set(VARZ_NAMES.split())
    json.dumps(broker.http_info())


async def test_every_row_says_what_it_is_and_reads_what_its_kind_allows(broker: Broker) -> None:
    for row, value in broker.figures().read():
        assert row.help.endswith("."), row.name
        values = list(value.values()) if row.label else [value]
        assert isinstance(value, dict) == bool(row.label), row.name
        if row.kind is not Kind.TEXT:
            assert all(isinstance(number, int | float) for number in values), row.name
        assert row.in_varz or row.runtime or row.exporter, row.name


async def test_no_name_of_rocketmqs_is_given_twice(broker: Broker) -> None:
    names = [row.runtime for row in broker.figures().rows if row.runtime]
    assert len(names) == len(set(names))
    assert len(runtime_table(broker.figures())) == len(RUNTIME_NAMES.split()) + len(LEVELS)


def _changes(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
            yield node.target.attr


def test_a_message_is_counted_at_one_door() -> None:
    root = Path(str(pyromq.broker.__file__)).parent
    doors = {"puts": "tables/topic_table.py", "put_bytes": "tables/topic_table.py", "missed": "stats/broker_stats.py"}
    found = {
        (name, str(path.relative_to(root)))
        for path in root.rglob("*.py")
        for name in _changes(ast.parse(path.read_text()))
        if name in doors
    }
    assert found == set(doors.items())
