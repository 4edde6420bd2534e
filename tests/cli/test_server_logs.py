"""The options of a server's log: level, format, file and its rotation."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from pyromq.cli.log_lines import BURST, JsonFormatter, RotatedFile
from pyromq.cli.server_logs import parse_size, start_logging
from tests.cli.conftest import one_line_error, pyromq_here, start_up, stop

EVENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|WARNING) \S+ .+")


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """Leave logging as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    for handler in set(root.handlers) - set(handlers):
        handler.close()
    root.handlers[:], root.level = handlers, level


def test_a_server_logs_json_lines_to_its_file_with_the_changes_that_were_made(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "server.log"
    running = start_up(tmp_path / "data", "--log-format", "json", "--log-file", str(log))
    created = pyromq_here("topic", "create", "orders", "-n", running.namesrv)
    assert created.returncode == 0, created.stderr
    assert stop(running) == 0
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert {"time", "level", "logger", "message"} <= events[0].keys()
    (change,) = [event["access"] for event in events if event["logger"] == "pyromq.access" and "access" in event][:1]
    assert (change["subject"], change["result"], change["account"]) == ("topics", "SUCCESS", "-")
    assert change["details"]["topic"] == "orders"
    assert (running.data / "stderr.log").read_text() == ""


def test_a_server_logs_readable_lines_of_its_level_to_standard_error(tmp_path: Path) -> None:
    running = start_up(tmp_path, "--log-level", "warning", "--set", "sendMessageThreadPoolNums=4")
    assert stop(running) == 0
    lines = (tmp_path / "stderr.log").read_text().splitlines()
    assert [EVENT.fullmatch(line) is not None for line in lines] == [True] * len(lines)
    assert [line.split()[1] for line in lines] == ["WARNING"]
    assert lines[0].endswith("settings without effect: sendMessageThreadPoolNums")


def test_a_full_file_is_rotated_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    handler = RotatedFile(path, 1_000, keep=2)
    logger = logging.Logger("test.rotation")
    logger.addHandler(handler)
    for number in range(BURST):
        logger.info("event number=%d", number)
    handler.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["server.log", "server.log.1", "server.log.2"]
    assert all(file.stat().st_size <= 1_000 for file in tmp_path.iterdir())
    assert path.read_text().splitlines()[-1].endswith(f"event number={BURST - 1}")


def test_the_level_that_debug_chose_stays(tmp_path: Path) -> None:
    start_logging(level=logging.DEBUG)
    start_logging(level=logging.INFO, file=tmp_path / "server.log")
    assert logging.getLogger().level == logging.DEBUG
    logging.getLogger("test").debug("seen")
    assert "seen" in (tmp_path / "server.log").read_text()


def test_an_event_as_json_is_one_line_whatever_it_says() -> None:
    record = logging.LogRecord("test", logging.INFO, "", 0, "topic=%s", ("a\nb\u2028\ud800\x1b",), None)
    line = JsonFormatter().format(record)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["message"] == "topic=a\nb\u2028\ud800\x1b"


@pytest.mark.parametrize(("text", "size"), [("100MB", 100 << 20), ("64k", 64 << 10), ("1 GiB", 1 << 30), ("9", 9)])
def test_sizes_are_written_with_units(text: str, size: int) -> None:
    assert parse_size(text, "--log-max-size") == size


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5M", "many", "10TB"])
def test_what_is_no_size_is_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="--log-max-size must be a size such as 100MB"):
        parse_size(text, "--log-max-size")
    done = pyromq_here("namesrv", "--port", "0", "--log-max-size", text)
    assert done.returncode == 2


def test_a_file_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = pyromq_here("namesrv", "--port", "0", "--log-file", str(tmp_path / "file" / "server.log"))
    assert str(tmp_path / "file") in one_line_error(done)
