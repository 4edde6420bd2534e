from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyromq.broker.tables.consumer_filters import ConsumerFilters, encode_filters
from pyromq.protocol.bodies import SubscriptionData
from pyromq.protocol.bodies.fastjson import loads
from pyromq.store.small_files.json_file import JsonFile

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000


class Table:
    """A table of filters, the time it sees, and what was asked to be saved."""

    def __init__(self, path: Path) -> None:
        self.now_ms = NOW_MS
        self.file = JsonFile(path / "consumerFilter.json")
        self.filters = ConsumerFilters(self.file, now_ms=lambda: self.now_ms, keep=DAY_MS / 1000)

    def beat(self, expression: str = "a > 1", version: int = 1, topic: str = "orders", kind: str = "SQL92") -> None:
        data = SubscriptionData(topic=topic, sub_string=expression, sub_version=version, expression_type=kind)
        self.filters.register("billing", [data])

    def seen(self, topic: str = "orders") -> tuple[str, int, int] | None:
        found = self.filters.get(topic, "billing")
        return None if found is None else (found.expression, found.version, found.dead_ms)

    def save(self) -> None:
        self.filters._forget_old()
        self.file.save(encode_filters(self.filters.snapshot()))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_a_heartbeat_registers_a_filter(table: Table) -> None:
    table.beat("a > 1", version=5)
    found = table.filters.get("orders", "billing")
    assert found is not None
    assert (found.expression, found.expression_type, found.version, found.born_ms) == ("a > 1", "SQL92", 5, NOW_MS)
    assert found.scan.accepts(b"a\x012")
    assert not found.scan.accepts(b"a\x011")
    assert table.filters.get("orders", "other") is None
    assert table.filters.get("other", "billing") is None


@pytest.mark.parametrize(
    ("expression", "version", "seen"),
    [
        ("a > 2", 4, ("a > 1", 5, 0)),  # older: ignored
        ("a > 2", 5, ("a > 1", 5, 0)),  # the same version: ignored
        ("a > 2", 6, ("a > 2", 6, 0)),  # newer: replaced
        ("a > 1", 6, ("a > 1", 6, 0)),  # newer and the same: its version counts
        ("a >", 6, None),  # newer and wrong: there is none any more
        ("a >", 5, ("a > 1", 5, 0)),
        ("", 6, ("a > 1", 5, 0)),
    ],
)
def test_the_newest_version_counts(
    table: Table, expression: str, version: int, seen: tuple[str, int, int] | None
) -> None:
    table.beat("a > 1", version=5)
    table.beat(expression, version)
    assert table.seen() == seen


def test_tags_and_unknown_types_are_no_filters(table: Table) -> None:
    table.beat("a || b", kind="TAG")
    table.beat("*", kind="")
    table.beat("return true", kind="GROOVY")
    assert table.seen() is None
    assert table.filters.snapshot().filter_data_by_topic == {}


def test_a_topic_that_a_heartbeat_no_longer_names_is_dead_until_it_comes_again(table: Table) -> None:
    table.beat(version=1)
    table.now_ms += 1000
    table.beat(version=1, topic="refunds")
    assert table.seen("orders") == ("a > 1", 1, NOW_MS + 1000)
    assert table.seen("refunds") == ("a > 1", 1, 0)
    table.now_ms += 1000
    table.beat(version=1, topic="refunds")
    assert table.seen("orders") == ("a > 1", 1, NOW_MS + 1000)
    table.beat(version=1)
    assert table.seen("orders") == ("a > 1", 1, 0)
    assert table.seen("refunds") == ("a > 1", 1, NOW_MS + 2000)


def test_a_group_without_members_leaves_its_filters_for_a_day(table: Table) -> None:
    table.beat()
    table.filters.unregister("billing")
    table.filters.unregister("nobody")
    assert table.seen() == ("a > 1", 1, NOW_MS)
    table.now_ms += DAY_MS - 1
    table.save()
    assert table.seen() is not None
    table.now_ms += 1
    table.save()
    assert table.seen() is None
    assert loads(table.file.path.read_bytes())["filterDataByTopic"] == {}


def test_a_filter_in_use_is_kept_however_old(table: Table) -> None:
    table.beat()
    table.now_ms += 10 * DAY_MS
    table.save()
    assert table.seen() == ("a > 1", 1, 0)


def test_no_more_filters_are_kept_than_is_allowed(table: Table) -> None:
    table.filters = ConsumerFilters(table.file, now_ms=lambda: NOW_MS, keep=DAY_MS / 1000, limit=2)
    for topic in ("t1", "t2", "t3"):
        table.beat(topic=topic)
    assert [topic for topic in ("t1", "t2", "t3") if table.seen(topic)] == ["t1", "t2"]
    table.beat("a > 2", version=2, topic="t2")  # one that is there may change
    assert table.seen("t2") == ("a > 2", 2, 0)


# --- the file --------------------------------------------------------------------------------------------------------

APACHES_FILE = """{
\t"filterDataByTopic":{
\t\t"orders":{
\t\t\t"groupFilterData":{
\t\t\t\t"billing":{
\t\t\t\t\t"bloomFilterData":{
\t\t\t\t\t\t"bitNum":112,
\t\t\t\t\t\t"bitPos":[
\t\t\t\t\t\t\t36,
\t\t\t\t\t\t\t12,
\t\t\t\t\t\t\t100
\t\t\t\t\t\t]
\t\t\t\t\t},
\t\t\t\t\t"bornTime":1699999990000,
\t\t\t\t\t"clientVersion":7,
\t\t\t\t\t"consumerGroup":"billing",
\t\t\t\t\t"dead":false,
\t\t\t\t\t"deadTime":0,
\t\t\t\t\t"expression":"a > 1",
\t\t\t\t\t"expressionType":"SQL92",
\t\t\t\t\t"topic":"orders"
\t\t\t\t}
\t\t\t},
\t\t\t"topic":"orders"
\t\t}
\t}
}"""


def test_apaches_file_is_read_and_nobody_is_taken_for_alive(table: Table) -> None:
    table.file.path.write_text(APACHES_FILE)
    table.filters.load()
    assert table.seen() == ("a > 1", 7, 1_699_999_990_000)  # born less than 30 s ago: dead since then
    table.beat(version=7)
    assert table.seen() == ("a > 1", 7, 0)


def test_what_is_older_counts_as_silent_for_half_a_minute(table: Table) -> None:
    table.file.path.write_text(APACHES_FILE)
    table.now_ms += DAY_MS
    table.filters.load()
    assert table.seen() == ("a > 1", 7, NOW_MS + DAY_MS - 30_000)


def test_the_file_is_written_as_apache_writes_it(table: Table) -> None:
    table.now_ms = 1_699_999_990_000
    table.beat(version=7)
    written = encode_filters(table.filters.snapshot()).decode()
    position = json.loads(written)["filterDataByTopic"]["orders"]["groupFilterData"]["billing"]["bloomFilterData"]
    assert position["bitNum"] == 112
    assert len(position["bitPos"]) == 3
    for ours, apaches in zip(position["bitPos"], (36, 12, 100), strict=True):
        written = written.replace(f"\t{ours}", f"\t{apaches}", 1)
    assert written.strip() == APACHES_FILE


def test_what_was_saved_is_there_after_a_restart(table: Table, tmp_path: Path) -> None:
    table.beat("a > 'x'", version=1)
    table.beat("a > 1 AND b = 'it''s'", version=2)
    table.filters.unregister("billing")
    table.save()
    again = Table(tmp_path)
    again.filters.load()
    assert again.seen() == ("a > 1 AND b = 'it''s'", 2, NOW_MS)


def test_odd_files_are_read_as_far_as_they_can_be(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    table.file.path.write_text(
        """{"filterDataByTopic":{"orders":{"groupFilterData":{"billing":{"expression":"a > 1","expressionType":"SQL92",
        "unknown":1,"bloomFilterData":{"bitNum":8,"bitPos":[1]}},"bad":{"expression":"a >","expressionType":"SQL92"},
        "empty":{}}}}}"""
    )
    table.filters.load()
    assert table.seen() == ("a > 1", 0, NOW_MS - 30_000)
    assert table.filters.get("orders", "bad") is None
    assert "group=bad" in caplog.text


def test_a_damaged_file_stops_nobody(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    table.file.path.write_text('{"filterDataByTopic":{"ord')
    table.filters.load()
    assert table.seen() is None
    assert "registered filters are forgotten" in caplog.text
    table.beat()
    assert table.seen() is not None
