"""What is missing is reported before Spark starts, which takes half a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pyromq import Message, blocking
from pyromq.cli.pipeline import generated_commands
from pyromq.cli.verbs import app
from pyromq.errors import PyroMQError
from pyromq.spark.read.brokers.broker_queues import connect
from pyromq.testing import LocalCluster


class SparkStarts(Exception):
    """Stands for the start of Spark."""


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*args: Any, **given: Any) -> Any:
        raise SparkStarts

    monkeypatch.setattr(generated_commands, "opened", opened)


def _run(*arguments: str) -> str:
    """Run a pipeline; return the line of its error, empty if Spark would have started."""
    error = CliRunner().invoke(app, ["pipeline", "run", *arguments]).exception
    assert isinstance(error, (PyroMQError, SparkStarts)), error
    return str(error)


NOBODY = "127.0.0.1:1"
WIDEN = ("widen", "--topic", "nowhere", "--group", "g", "--to", "wide", "--checkpoint", "/c")


@pytest.mark.parametrize(
    "pipeline",
    [
        ("archive", "--topics", "orders", "--to", "/a"),
        ("archive", "--pattern", "orders.*", "--to", "/a"),
        ("replay", "--dead-letters", "billing"),
        ("orders",),
        ("report",),
        WIDEN,
    ],
)
def test_a_wrong_address(pipeline: tuple[str, ...], tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "page.html")] if pipeline[0] == "report" else []
    assert _run(*pipeline, *out, "-n", NOBODY).startswith("no name server answers: 127.0.0.1:1")


def test_a_connect_server_may_see_what_this_machine_does_not() -> None:
    assert _run("archive", "--topics", "orders", "--to", "/a", "-n", NOBODY, "--remote", "sc://10.0.0.1") == ""


@pytest.mark.parametrize(
    ("pipeline", "text"),
    [
        (("archive", "--topics", "nowhere", "--to", "/a"), "no broker has the topic 'nowhere'"),
        (("orders", "--topic", "nowhere"), "no broker has the topic 'nowhere'"),
        (("report", "--topics", "nowhere"), "no broker has the topic 'nowhere'"),
        (("replay", "--dead-letters", "nobody"), "no broker has the topic '%DLQ%nobody'"),
        (("replay", "--archive", "/no/such/place", "--to", "again"), "there is no archive in /no/such/place: pyromq"),
        (WIDEN, "no broker has the topic 'nowhere'"),
    ],
)
def test_what_is_not_there(cluster: LocalCluster, tmp_path: Path, pipeline: tuple[str, ...], text: str) -> None:
    out = ["--out", str(tmp_path / "page.html")] if pipeline[0] == "report" else []
    assert _run(*pipeline, *out, "-n", cluster.namesrv).startswith(text)


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_a_directory_that_is_no_store(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    for pipeline in (("archive", "--topics", "orders", "--to", "/a"), ("report", "--out", str(tmp_path / "page.html"))):
        assert str(tmp_path / name) in _run(*pipeline, "--store", str(tmp_path / name))


def test_what_is_there(cluster: LocalCluster, producer: blocking.Producer, tmp_path: Path) -> None:
    producer.send(Message(topic="looked-at", body=b"x"))
    (tmp_path / "a" / "topic=looked-at").mkdir(parents=True)
    for pipeline in (
        ("archive", "--topics", "looked-at", "--to", "/a"),
        ("orders", "--topic", "looked-at"),
        ("report", "--topics", "looked-at", "--out", str(tmp_path / "page.html")),
        ("replay", "--archive", str(tmp_path / "a"), "--to", "looked-at-again"),
    ):
        assert _run(*pipeline, "-n", cluster.namesrv) == ""
    assert len(connect(cluster.namesrv).queues(["looked-at-again"])) == 8, "created like a producer's topic"


def test_a_target_is_not_created_where_brokers_create_none(tmp_path: Path) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    with LocalCluster(settings={"autoCreateTopicEnable": False}) as strict:
        line = _run("replay", "--archive", str(tmp_path), "--to", "again", "-n", strict.namesrv)
    assert line.startswith("no broker has the topic 'again'")
    assert "create the topic" in line
