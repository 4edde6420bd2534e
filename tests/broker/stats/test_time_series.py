"""Figures over a minute, an hour and a day."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from pyromq.broker.server import Broker
from pyromq.broker.stats.broker_stats import AT_A_TIME, BrokerStats
from pyromq.broker.stats.time_series import LONG_PERIOD, TICK, CountSample, CountSeries
from pyromq.broker.tables.topic_table import Topic, TopicTable, topic_config
from pyromq.protocol.bodies import BrokerStatsData, BrokerStatsItem, decode
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.testing import TestClock
from tests.broker.helpers import Peer, send_header

HOUR, DAY = 360, 8_640  # ticks


class PlainSpan:
    """What RocketMQ does: a list of samples, whose last and first are compared."""

    def __init__(self, period: int, size: int) -> None:
        self.period = period
        self.size = size
        self.samples: list[tuple[int, CountSample]] = []

    def sample(self, tick: int, counts: CountSample) -> None:
        if tick % self.period:
            return
        if not self.samples:
            self.samples.append((tick - self.period, CountSample()))
        self.samples = [*self.samples, (tick, counts)][-self.size :]

    def item(self) -> BrokerStatsItem:
        if not self.samples:
            return BrokerStatsItem()
        (since, first), (until, last) = self.samples[0], self.samples[-1]
        total, calls = last.messages - first.messages, last.calls - first.calls
        return BrokerStatsItem(total, total / ((until - since) * TICK), total / calls if calls else 0.0)


@given(
    steps=st.lists(st.integers(0, 3).map(lambda number: max(0, number - 1)), max_size=200), first=st.integers(1, 400)
)
def test_the_figures_are_rocketmqs_although_nothing_is_kept_of_what_is_idle(steps: list[int], first: int) -> None:
    series = CountSeries()
    minute, hour = PlainSpan(1, 7), PlainSpan(60, 7)
    counts, busy = CountSample(), True
    for tick, step in enumerate([1, *steps], first):
        counts = CountSample(counts.messages + 2 * step, 0, counts.calls + step)
        if step or busy or tick % LONG_PERIOD == 0:
            busy = series.sample(tick, counts)
        minute.sample(tick, counts)
        hour.sample(tick, counts)
        data = series.data("messages")
        assert (data.stats_minute, data.stats_hour) == (minute.item(), hour.item())


def test_an_hour_and_a_day_are_counted_and_end() -> None:
    series = CountSeries()
    for tick in range(DAY + HOUR + 1):
        series.sample(tick, CountSample(min(tick, DAY) * 6, 0, min(tick, DAY) * 3))
    data = series.data("messages")
    assert (data.stats_minute.sum, data.stats_hour.sum) == (0, 0)
    assert data.stats_day.sum == 23 * HOUR * 6
    assert (data.stats_day.avgpt, round(data.stats_day.tps, 3)) == (2.0, round(23 / 24 * 0.6, 3))
    assert series.data("bytes").stats_day.sum == 0
    for tick in range(DAY + HOUR + 1, 3 * DAY):
        assert not series.sample(tick, CountSample(DAY * 6, 0, DAY * 3))
    assert series.data("messages") == BrokerStatsData()


async def figure(peer: Peer, name: str, key: str) -> BrokerStatsData:
    answer = await peer.ask(RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": name, "statsKey": key})
    return decode(BrokerStatsData, answer.body)


async def test_what_was_counted_is_told_under_rocketmqs_names(peer: Peer, broker: Broker, clock: TestClock) -> None:
    for _ in range(10):
        await peer.send(body=b"x" * 100)
    assert await figure(peer, "TOPIC_PUT_NUMS", "orders") == BrokerStatsData()  # no sample has been taken yet
    pulled = await peer.pull()
    await clock.advance_async(seconds=11)
    puts = (await figure(peer, "TOPIC_PUT_NUMS", "orders")).stats_minute
    assert (puts.sum, puts.tps, puts.avgpt) == (10, 1.0, 1.0)
    assert (await figure(peer, "TOPIC_PUT_SIZE", "orders")).stats_minute.sum == len(pulled.body)
    gets = (await figure(peer, "GROUP_GET_NUMS", "orders@billing")).stats_minute
    assert (gets.sum, gets.avgpt) == (10, 10.0)
    assert (await figure(peer, "GROUP_GET_SIZE", "orders@billing")).stats_minute.sum == len(pulled.body)
    for key in ("orders@billing", "0@orders@billing"):
        assert (await figure(peer, "GROUP_GET_LATENCY", key)).stats_minute.avgpt > 0
    assert (await figure(peer, "BROKER_PUT_NUMS", "DefaultCluster")).stats_minute.sum == 10
    assert (await figure(peer, "BROKER_GET_NUMS", "DefaultCluster")).stats_minute.sum == 10
    await peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, {"offset": "0", "group": "billing", "delayLevel": "-1"})
    await clock.advance_async(seconds=11)
    assert (await figure(peer, "SNDBCK_PUT_NUMS", "orders@billing")).stats_minute.sum == 1


async def test_what_was_never_counted_is_an_error(peer: Peer) -> None:
    for name, key in (
        ("TOPIC_PUT_NUMS", "nothing"),
        ("TOPIC_PUT_NUMS", "BenchmarkTest"),
        ("GROUP_GET_NUMS", "orders@nobody"),
        ("GROUP_GET_NUMS", "nonsense"),
        ("BROKER_PUT_NUMS", "elsewhere"),
        ("NO_SUCH_NAME", "orders"),
    ):
        fields = {"statsName": name, "statsKey": key}
        await peer.ask(RequestCode.VIEW_BROKER_STATS_DATA, fields, expect=ResponseCode.SYSTEM_ERROR)


async def test_a_topic_that_was_deleted_and_made_anew_begins_at_nothing(peer: Peer, clock: TestClock) -> None:
    for _ in range(5):
        await peer.send()
    await clock.advance_async(seconds=11)
    await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    await peer.ask(RequestCode.SEND_MESSAGE_V2, send_header())
    await clock.advance_async(seconds=11)
    assert (await figure(peer, "TOPIC_PUT_NUMS", "orders")).stats_minute.sum == 1
    assert (await figure(peer, "BROKER_PUT_NUMS", "DefaultCluster")).stats_minute.sum == 6


async def test_the_figures_of_many_topics_are_sampled_in_slices(clock: TestClock) -> None:
    table = SimpleNamespace(removed_puts=0, removed_put_bytes=0, by_name={})
    table.by_name = {name: Topic(topic_config(name, 4)) for name in map(str, range(5 * AT_A_TIME))}
    rest: list[Callable[[], None]] = []
    stats = BrokerStats(cast(TopicTable, table), clock.now(), rest.append)
    for topic in table.by_name.values():
        topic.puts = 3
    stats.sample(clock.now(), clock.monotonic())
    sampled = sum(topic.series is not None for topic in table.by_name.values())
    assert (sampled, len(rest)) == (AT_A_TIME, 1)
    while rest:
        rest.pop()()
    for topic in table.by_name.values():
        assert topic.series is not None
        assert topic.series.data("messages").stats_minute.sum == 3
