"""The text for Prometheus: names, units, labels and types."""

from __future__ import annotations

from types import SimpleNamespace

from pyromq.console.monitoring.exposition import MetricsPage, label_text
from pyromq.figures import BoundFigures, Figure, Figures, Kind, MetricSeries, SeriesTable

ROWS: tuple[Figure[SimpleNamespace], ...] = (
    Figure("sent", "Messages sent.", Kind.COUNTER, lambda part: 3, exporter="rocketmq_sent_total"),
    Figure("lag_ms", "How late it is.", Kind.GAUGE, lambda part: 1500, exporter="rocketmq_lag_mills"),
    Figure("disk_percent", "How full it is.", Kind.GAUGE, lambda part: 91),
    Figure("by_topic", "Messages.", Kind.GAUGE, lambda part: {'a"b': 1}, label="topic"),
    Figure("rate", "A rate.", Kind.GAUGE, lambda part: {"10": 0.5}, label="s", in_metrics=False, exporter="tps{}"),
    Figure("writable", "Whether it can be written to.", Kind.GAUGE, lambda part: True),
    Figure("address", "Where it is.", Kind.TEXT, lambda part: "here"),
)


def text(page: MetricsPage) -> list[str]:
    return b"".join(page.pieces()).decode().splitlines()


def test_figures_have_base_units_and_rocketmq_exporters_names_beside_ours() -> None:
    page = MetricsPage()
    page.add_figures(Figures(BoundFigures(ROWS, SimpleNamespace)).read(), "pyromq", label_text({"broker": "a"}))
    assert [line for line in text(page) if not line.startswith("#")] == [
        'pyromq_sent_total{broker="a"} 3',
        'rocketmq_sent_total{broker="a"} 3',
        'pyromq_lag_seconds{broker="a"} 1.5',
        'rocketmq_lag_mills{broker="a"} 1500',
        'pyromq_disk_ratio{broker="a"} 0.91',
        'pyromq_by_topic{broker="a",topic="a\\"b"} 1',
        'tps10{broker="a"} 0.5',
        'pyromq_writable{broker="a"} 1',
    ]
    assert "# TYPE rocketmq_sent_total counter" in text(page)
    assert "# TYPE rocketmq_lag_mills gauge" in text(page)


def test_the_lines_of_two_servers_stand_together_under_one_heading() -> None:
    page = MetricsPage()
    for broker in "ab":
        page.add_figures(Figures(BoundFigures(ROWS[5:6], SimpleNamespace)).read(), "pyromq", f'broker="{broker}"')
    assert text(page) == [
        "# HELP pyromq_writable Whether it can be written to.",
        "# TYPE pyromq_writable gauge",
        'pyromq_writable{broker="a"} 1',
        'pyromq_writable{broker="b"} 1',
    ]


def test_a_series_leaves_out_what_has_no_value() -> None:
    table = SeriesTable[int](
        ("queue",),
        lambda number: (str(number),),
        (MetricSeries("x_messages", "Messages.", Kind.GAUGE, lambda number: None if number == 2 else number / 2),),
    )
    page = MetricsPage()
    page.add_batch(((table,), [1, 2, 3]), 'broker="a"')
    assert text(page)[2:] == ['x_messages{broker="a",queue="1"} 0.5', 'x_messages{broker="a",queue="3"} 1.5']
