"""`pyromq bench` against a real broker."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

from tests.cli.conftest import Servers, pyromq, pyromq_here


def test_bench_measures_sends_and_pulls(servers: Servers) -> None:
    sent = pyromq_here("bench", "send", "-n", servers.namesrv, "-C", "4", "-W", "8", "--count", "2000", "--json")
    assert sent.returncode == 0, sent.stderr
    assert json.loads(sent.stdout)["messages"] == 2000
    pulled = pyromq_here("bench", "consume", "-n", servers.namesrv, "--duration", "0.3", "--warm-up", "0", "--json")
    assert pulled.returncode == 0, pulled.stderr
    assert json.loads(pulled.stdout)["messages"] > 0


def test_several_processes_share_a_fixed_rate_and_the_broker_is_found(servers: Servers) -> None:
    arguments = ("-n", servers.namesrv, "-C", "3", "--processes", "2", "--topic", "paced")
    done = pyromq("bench", "send", *arguments, "--rate", "400", "--count", "50", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["messages"] == 50
    assert (result["processes"], result["asked_rate"], result["errors"], result["lost"]) == (2, 400.0, 0, 0)
    assert 0 < result["p50_ms"] <= result["p99_ms"] <= result["p999_ms"] <= result["max_ms"]
    assert result["machine"]["cores"] > 0
    if sys.platform == "linux":
        assert result["broker_cpu_per_million"] >= 0
        assert result["broker_memory_mb"] > 0
    read = pyromq("bench", "consume", *arguments, "--duration", "0.5", "--warm-up", "0")
    assert read.returncode == 0, read.stderr
    assert "2 processes" in read.stdout
    assert "MB/s" in read.stdout


def test_a_chart_shows_the_slow_answers(servers: Servers, tmp_path: Path) -> None:
    arguments = ("bench", "send", "-n", servers.namesrv, "-C", "2", "-W", "2", "--count", "500", "--json", "--chart")
    done = pyromq_here(*arguments, str(tmp_path / "send.svg"))
    assert done.returncode == 0, done.stderr
    drawn = ElementTree.parse(tmp_path / "send.svg").getroot()
    texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert any("2 connections x 2 in flight" in str(text) for text in texts)
    assert "99.9 %" in texts
    found = json.loads(done.stdout)["percentiles_ms"]
    assert list(found.values()) == sorted(found.values())
    refused = pyromq_here(*arguments, str(tmp_path / "missing" / "send.svg"))
    assert refused.returncode == 1
    assert "cannot write" in refused.stderr


def test_bench_measures_from_the_sender_to_the_consumer(servers: Servers) -> None:
    arguments = ("bench", "end-to-end", "-n", servers.namesrv, "--rate", "200", "--duration", "0.5", "--warm-up", "0")
    done = pyromq(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert 0 < result["messages"] <= 101
    assert (result["lost"], result["errors"]) == (0, 0)
    assert 0 < result["p50_ms"] <= result["max_ms"]
    if sys.platform == "linux":
        assert result["broker_memory_mb"] > 0
    assert "at a fixed rate" in pyromq(*arguments).stdout
