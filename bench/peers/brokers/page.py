"""The figures of docs/performance.md: tables and a chart, from the results of runs.

    python -m bench.peers page RESULT.json [GROWTH.json…] [COLD.json]

It rewrites what stands between the two marks of the page, and docs/images/performance.svg. The figures that nobody
measured in these runs are not there: a row needs a result.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..cold import Middle, from_json
from ..growth.model import cluster, held, points, prices
from .chart import Bar, chart
from .result import Result

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "performance.md"
CHART = ROOT / "docs" / "images" / "performance.svg"
BEGIN = "<!-- from here on made by `python -m bench.peers page` -->\n"
END = "<!-- until here -->\n"
_WHY = 200
OURS, PLAIN, APACHE = "pyromq", "plain", "apache"
NAMES = {
    OURS: "PyroMQ", PLAIN: "PyroMQ, plain lane", APACHE: "Apache RocketMQ", "kafka": "Kafka", "redis": "Redis Streams",
    "nats": "NATS JetStream", "rabbitmq": "RabbitMQ",
}  # fmt: skip


class Aim(NamedTuple):
    """What we want to reach against Apache's broker."""

    rate: float
    cpu: float | None = None
    p99: float | None = None

    def __str__(self) -> str:
        most = [f" / ≤ {bound:g}" for bound in (self.cpu, self.p99) if bound is not None]
        return f"≥ {self.rate:g}" + "".join(most)


AIMS = {
    "send 1x1": Aim(1.4, 0.55), "send 64x1": Aim(1.8, 0.38, 0.5), "send 256x1": Aim(1.9, 0.4),
    "send 8x32": Aim(2.0, 0.35, 0.3), "sync 1x1": Aim(1.5), "sync 64x1": Aim(1.8, 0.4), "sync 8x32": Aim(2.0, 0.35),
    "pull 8x1": Aim(2.0, 0.4), "pull 64x1": Aim(1.8), "pull 8x8": Aim(2.0, 0.4), "pair 64x1": Aim(1.25),
    "pair 8x32": Aim(1.25), "acl 64x1": Aim(1.25), "acl 8x32": Aim(1.25),
}  # fmt: skip


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def beside_apache(result: Result) -> str:
    """Return the table of ratios to Apache's broker."""
    rows = []
    for work in result.works():
        apache = result.median(work, APACHE)
        ours, plain = (result.ratio(work, name, APACHE) for name in (OURS, PLAIN))
        if apache is None or not (ours or plain):
            continue
        base = f"{apache.rate:,.0f}/s ({apache.cpu:.1f}; {apache.p99_ms:.2f} ms)"
        rows.append([work, base, str(ours or "–"), str(AIMS.get(work, "–")), str(plain or "–")])
    return _table(["work", "Apache 4.9.7 (CPU/M; p99)", "PyroMQ", "aim", "plain lane"], rows)


def all_peers(result: Result) -> str:
    """Return the table of rates and CPU times of everybody."""
    names = [name for name in result.names() if name in NAMES]
    rows = []
    for work in result.works():
        cells = [result.median(work, name) for name in names]
        rows.append([work, *(f"{cell.rate:,.0f} ({cell.cpu:.1f})" if cell else "–" for cell in cells)])
    return _table(["messages/s (CPU/M)", *(NAMES[name] for name in names)], rows)


def memory(result: Result) -> str:
    """Return the most anonymous memory of each peer, over all works of one broker."""
    single = [one for one in result.rounds if not one.work.startswith("pair")]
    most = {name: max(one.memory_mib for one in single if one.peer == name) for name in result.names() if name in NAMES}
    return ", ".join(f"{NAMES[name]} {mib:,.0f} MiB" for name, mib in most.items())


def told(result: Result) -> str:
    """Return how it was measured and what is missing."""
    facts = ", ".join(f"{name} {value}" for name, value in result.machine.items())
    java = {about["java"] for about in result.peers.values() if "java" in about}
    versions = {f"{NAMES.get(key.split()[0], key)} {about['version']}" for key, about in result.peers.items()}
    lines = [
        f"Measured by `{result.command}` on: {facts}.",
        f"Versions: {'; '.join(sorted(versions))}.",
        *(f"Flags of a JVM: `{flags}`." for flags in sorted(java)),
        f"The most anonymous memory of a broker: {memory(result)}.",
    ]
    if result.missing:
        lines.append("Not measured, or not counted:")
    items = [f"- {what}: {' '.join(why.split())[:_WHY]}" for what, why in result.missing.items()]
    return "\n".join(_wrapped(lines)) + "\n" + "".join(_wrapped(items))


def _wrapped(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        further = "  " if line.startswith("- ") else ""
        yield textwrap.fill(line, 118, subsequent_indent=further, break_long_words=False, break_on_hyphens=False) + "\n"


def bars(result: Result) -> list[Bar]:
    """Return the bars of the chart: rates in those of Apache's broker."""
    found = []
    for work in result.works():
        for name in (OURS, PLAIN):
            if ratio := result.ratio(work, name, APACHE):
                found.append(Bar(work, NAMES[name], ratio.rate))
    return found


def growth_tables(result: Result) -> list[str]:
    """Return what a message costs as things grow, and what the model says."""
    rows = [
        [point.thing, f"{point.size:,}", point.what, f"{point.cost:.2f}", f"{point.cost / point.first:.2f}",
         "given" if point.is_given else f"{point.predicted:.2f} ({point.error:+.0%})"]
        for point in points(result, OURS)
    ]  # fmt: skip
    parts = []
    if rows:
        parts += ["### How cost grows", _table(["thing", "size", "load", "CPU/M", "to the first", "model"], rows)]
    starts = [
        [key.removeprefix("start with ").removesuffix(" messages"), about["seconds"], about["cpu"]]
        for key, about in result.peers.items()
        if key.startswith("start with")
    ]
    if starts:
        parts += [_table(["messages in the store", "start, s", "CPU of the start, s"], starts)]
    if result.memory:
        parts += [_table(["anonymous memory of a broker", "MiB", "each, KiB", "model"], _memory_rows(result))]
    return [*parts, *_wrapped([f"Measured by `{result.command}`, {result.machine['when']}."])]


def _memory_rows(result: Result) -> Iterable[Sequence[str]]:
    for line in held(result.memory):
        each = "" if line.each_kib is None else f"{line.each_kib:.1f}"
        model = "" if line.predicted is None else f"{line.predicted:.1f} ({line.predicted / line.mib - 1:+.0%})"
        yield line.what, f"{line.mib:.1f}", each, model


def paper_cluster(results: Sequence[Result]) -> list[str]:
    """Return the cluster for a million messages a second and 100,000 clients, if its prices were measured."""
    found = (prices(brokers, growth, OURS) for brokers in results for growth in results)
    if costs := next((one for one in found if one), None):
        table = _table(["what", "how", "how much"], cluster(costs, 1_000_000, 100_000))
        return ["### A million messages a second, 100,000 clients, on paper", table]
    return []


def _is_growth(result: Result) -> bool:
    return bool(result.memory) or any(points(result, OURS))


def cold_backlog(found: Mapping[str, Any]) -> list[str]:
    """Return the table of a backlog that was read from the disk."""
    every = {name: Middle.of([from_json(one) for one in rounds]) for name, rounds in found["cold"].items()}
    rows = [
        [NAMES[name], f"{own.rate:,.0f} ({own.rates[0]:,.0f}–{own.rates[1]:,.0f})", f"{own.cpu:.1f}",
         f"{own.alone_ms:.2f}", f"{own.beside_ms:.2f} (× {own.ratio:.2f})"]
        for name, own in every.items()
    ]  # fmt: skip
    head = [
        "a backlog on disk, read once",
        "messages/s",
        "CPU/M, with the sends",
        "p99 of sends alone, ms",
        "meanwhile",
    ]
    ratio = ""
    if OURS in every and APACHE in every:
        ratio = f" PyroMQ reads {every[OURS].rate / every[APACHE].rate:.2f} times as fast as Apache RocketMQ."
    said = f"Measured by `{found['command']}`, {found['machine']['when']}.{ratio}"
    return ["### A cold backlog", _table(head, rows), *_wrapped([said])]


def written(page: str, results: Sequence[Result], cold: Mapping[str, Any] | None = None) -> str:
    """Return the page with the figures of these results."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    parts = []
    for result in results:
        if any(result.median(work, APACHE) for work in result.works()):
            picture = f"![rates beside Apache RocketMQ]({CHART.relative_to(PAGE.parent)})"
            parts += ["### Beside Apache RocketMQ", beside_apache(result), picture]
        if not _is_growth(result):
            parts += ["### All peers", all_peers(result), "### How it was measured", told(result)]
    if cold:
        parts += cold_backlog(cold)
    if growth := [result for result in results if _is_growth(result)]:
        parts += growth_tables(Result.joined(growth))
    parts += paper_cluster(results)
    return before + BEGIN + "\n" + "\n\n".join(part.rstrip("\n") for part in parts) + "\n\n" + END + after


def _json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers page", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, nargs="+")
    paths = parser.parse_args(words).results
    cold = next((found for found in map(_json, paths) if "cold" in found), None)
    results = [Result.read(path) for path in paths if "cold" not in _json(path)]
    PAGE.write_text(written(PAGE.read_text(), results, cold))
    if found := [bar for result in results for bar in bars(result)]:
        CHART.write_text(chart("messages a second, Apache RocketMQ 4.9.7 = 1", found))
    return 0
