"""/metrics over real HTTP, read by prometheus-client's own parser."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from pathlib import Path
from time import thread_time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pyromq.admin import AdminClient
from pyromq.admin.health.checks import CheckLimits, Limit
from pyromq.broker.stats import series
from pyromq.broker.stats.health import CAUSES
from pyromq.console.monitoring.metrics import Metrics
from pyromq.protocol.bodies import TopicConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.testing import TestClock
from tests.broker.helpers import heartbeat
from tests.console.monitoring.conftest import Site
from tests.console.monitoring.exporter_names import EXPORTER_NAMES
from tests.console.monitoring.metric_table import tables

ROOT = Path(__file__).parent.parent.parent.parent

NAME = re.compile("`(rocketmq_[a-z_0-9]+)`")

Samples = dict[str, list[tuple[dict[str, str], float]]]


async def scrape(site: Site) -> Samples:
    answer = await site.get("/metrics")
    assert answer.status == 200
    found: Samples = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def only(samples: Samples, name: str, **labels: str) -> float:
    """Return the value of the one sample that has these labels."""
    values = [value for has, value in samples[name] if labels.items() <= has.items()]
    assert len(values) == 1, (name, labels, samples.get(name))
    return values[0]


async def commit(site: Site, offset: int, queue_id: int = 0, group: str = "billing") -> None:
    fields = {"consumerGroup": group, "topic": "orders", "queueId": str(queue_id), "commitOffset": str(offset)}
    await site.peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)


async def test_a_stalled_queue_shows_its_lag_in_messages_and_seconds_and_since_when(
    site: Site, clock: TestClock
) -> None:
    await site.peer.ask(RequestCode.HEART_BEAT, body=heartbeat())
    for _ in range(5):
        await site.peer.send()
    await commit(site, 2)
    await clock.advance_async(seconds=40)
    await commit(site, 3)
    await clock.advance_async(seconds=60)
    samples = await scrape(site)
    queue = {"broker": "broker-a", "group": "billing", "topic": "orders", "queue_id": "0"}
    assert only(samples, "pyromq_queue_lag_messages", **queue) == 2
    assert only(samples, "pyromq_queue_lag_seconds", **queue) == pytest.approx(100, abs=1)
    assert only(samples, "pyromq_queue_blocked_seconds", **queue) == pytest.approx(60, abs=11)
    assert only(samples, "pyromq_group_lag_messages", group="billing", topic="orders") == 2
    assert only(samples, "pyromq_group_lag_seconds", group="billing", topic="orders") == pytest.approx(100, abs=1)
    assert only(samples, "rocketmq_group_diff", group="billing", topic="orders") == 2
    assert only(samples, "pyromq_group_members", group="billing") == 1
    await commit(site, 5)
    samples = await scrape(site)
    assert "pyromq_queue_lag_messages" not in samples
    assert only(samples, "pyromq_group_lag_seconds", group="billing", topic="orders") == 0


async def test_metrics_and_pages_agree_with_group_describe_top_and_check(site: Site, clock: TestClock) -> None:
    for queue_id, messages in ((0, 5), (1, 7)):
        for _ in range(messages):
            await site.peer.send(queue_id=queue_id)
        await clock.advance_async(seconds=30)
    await commit(site, 2, queue_id=0)
    await commit(site, 4, queue_id=1)
    await clock.advance_async(seconds=45)
    samples = await scrape(site)
    (shown,) = [row for row in (await site.get("/groupz")).json["groups"] if row["group"] == "billing"]
    async with AdminClient(site.name_server.address, clock=clock) as admin:
        described = await admin.groups.describe("billing", watch=0)
        (top,) = [group for group in (await admin.overview()).groups if group.group == "billing"]
        report = await admin.check(CheckLimits(lag=Limit(1), lag_seconds=Limit(1)), ["billing"])
    checked = {result.name: result.value for result in report.results}
    lag = only(samples, "pyromq_group_lag_messages", group="billing", topic="orders")
    assert lag == shown["lag"] == described.lag == top.lag == checked["lag"] == 6
    age = only(samples, "pyromq_group_lag_seconds", group="billing", topic="orders")
    for other in (shown["behind_seconds"], described.behind, top.behind, checked["lag_seconds"]):
        assert other == pytest.approx(age, abs=1)
    for queue in described.queues:
        labels = {"group": "billing", "topic": "orders", "queue_id": str(queue.queue.queue_id)}
        if queue.lag:
            assert only(samples, "pyromq_queue_lag_messages", **labels) == queue.lag == 3
            assert only(samples, "pyromq_queue_lag_seconds", **labels) == pytest.approx(queue.behind, abs=1)


async def test_the_figures_of_broker_and_name_server_have_our_names_and_rocketmq_exporters(site: Site) -> None:
    await site.peer.send()
    await site.peer.pull("nothing", expect=ResponseCode.TOPIC_NOT_EXIST)
    samples = await scrape(site)
    assert only(samples, "pyromq_broker_messages_put_total", broker="broker-a") == 1
    assert only(samples, "rocketmq_brokeruntime_putmessage_times_total") == 1
    assert only(samples, "pyromq_broker_writable") == 1
    assert only(samples, "pyromq_broker_requests_refused_total", cause="TOPIC_NOT_EXIST") == 1
    assert only(samples, "pyromq_topic_messages_total", topic="orders") == 1
    assert only(samples, "rocketmq_producer_offset", topic="orders") == 1
    assert only(samples, "pyromq_namesrv_brokers") == 1
    assert only(samples, "pyromq_broker_problem", cause="disk_full") == 0
    assert only(samples, "process_resident_memory_bytes") > 0
    assert only(samples, "pyromq_loop_lag_max_seconds") >= 0
    for name in ("held_pulls", "unflushed_seconds", "unflushed_bytes", "transactions_open", "timed_messages_waiting"):
        assert only(samples, f"pyromq_broker_{name}") >= 0


async def test_names_that_peers_make_up_cannot_break_the_page(site: Site) -> None:
    await site.peer.ask(RequestCode.HEART_BEAT, body=heartbeat(producer='a"b\\c\nd 1\nx'))
    assert only(await scrape(site), "rocketmq_producer_count", group='a"b\\c\nd 1\nx') == 1


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is missing: apt-get install prometheus")
async def test_promtool_has_no_complaint(site: Site, tmp_path: Path) -> None:
    await site.peer.ask(RequestCode.HEART_BEAT, body=heartbeat())
    await site.peer.ask(RequestCode.HEART_BEAT, body=heartbeat(producer="shop"))
    await site.peer.send()
    await commit(site, 0)
    text = (await site.get("/metrics")).text
    done = await asyncio.to_thread(
        subprocess.run, ["promtool", "check", "metrics"], input=text, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


class _Turns:
    """Counts the turns that others get, and the most CPU time that the loop's thread spent between two of them."""

    def __init__(self) -> None:
        self.count, self.longest, self._last = 0, 0.0, thread_time()
        self._is_over = False

    def turn(self) -> None:
        now = thread_time()
        self.longest, self._last = max(self.longest, now - self._last), now
        self.count += 1
        if not self._is_over:
            asyncio.get_running_loop().call_soon(self.turn)

    def stop(self) -> None:
        self._is_over = True


async def test_a_page_of_thousands_of_topics_and_groups_is_made_in_small_steps(site: Site) -> None:
    topics, groups = 2_000, 200
    for number in range(topics):
        site.broker.topics._put(TopicConfig(topic_name=f"topic-{number}", read_queue_nums=8, write_queue_nums=8))
    for number in range(groups):
        site.broker.groups.find_or_create(f"group-{number}")
        site.broker.offsets.commit(f"group-{number}", f"topic-{number}", 0, 1, "test")
    metrics = Metrics(site.pages.watched, site.pages._lag)
    await metrics.page()
    turns = _Turns()
    turns.turn()
    pieces = await metrics.page()
    turns.stop()
    text = b"".join(pieces).decode()
    assert text.count("\npyromq_topic_messages_total{") >= topics
    assert text.count("\npyromq_group_lag_messages{") == groups
    assert turns.count > topics / 50
    assert turns.longest < 0.02, f"the loop was held for {turns.longest * 1000:.0f} ms of CPU time"


async def test_a_page_has_an_end_and_says_what_it_leaves_out(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "MOST_PAIRS", 64)
    await site.peer.send()
    for number in range(300):
        site.broker.offsets.commit(f"group-{number:03}", "orders", 0, number % 2, "test")
    samples = await scrape(site)
    assert len(samples["pyromq_group_lag_messages"]) < 200
    assert len(samples["pyromq_queue_lag_messages"]) > 64, "what waits is shown before what does not"
    left_out = only(await scrape(site), "pyromq_broker_metrics_left_out")
    assert left_out == 300 - len(samples["pyromq_group_lag_messages"])


async def test_the_page_of_metrics_has_a_line_for_each_and_no_two_share_a_name(site: Site) -> None:
    lines = tables(site.broker, site.name_server).lines
    text = (ROOT / "docs" / "metrics.md").read_text().splitlines()
    assert [line for line in lines if line not in text] == [], "see `python -m tests.console.monitoring.metric_table`"
    ours = [line for line in text if line.startswith(("| `pyromq_", "- `rocketmq_")) and "`pyromq_client_" not in line]
    assert [line for line in ours if line not in lines] == []
    names = [line.split("`")[1].partition("{")[0] for line in lines]
    assert len(names) == len(set(names))


async def test_every_name_of_rocketmq_exporter_is_there_or_has_its_reason(site: Site) -> None:
    await site.peer.ask(RequestCode.HEART_BEAT, body=heartbeat(topics={"orders": "*", "%RETRY%billing": "*"}))
    await site.peer.ask(RequestCode.HEART_BEAT, body=heartbeat("client-2", producer="shop"))
    await site.peer.send()
    await site.peer.pull()
    fields = {"offset": "0", "group": "billing", "delayLevel": "-1", "originTopic": "orders"}
    await site.peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
    shown = {name for name in await scrape(site) if name.startswith("rocketmq_")}
    text = (ROOT / "docs" / "metrics.md").read_text()
    missing = {name for line in text.splitlines() if line.startswith("| `rocketmq_") for name in NAME.findall(line)}
    assert shown | missing == EXPORTER_NAMES
    assert not shown & missing


def test_the_page_of_metrics_names_every_cause() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text()
    assert [cause for cause in CAUSES if f"`{cause}`" not in text] == []
