"""The log of a server: one line for each event, whatever strangers put into it, and not without bound."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from pyromq.cli.log_lines import BURST, MOST_CHARACTERS, OF_A_STRANGER, PERIOD, BoundedHandler, safe
from pyromq.remoting.round import Serving, about


class Log:
    """A logger of its own, its lines, and a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.stream = io.StringIO()
        self.handler = BoundedHandler(self.stream, lambda: self.now)
        self.logger = logging.Logger("test.log")
        self.logger.addHandler(self.handler)

    @property
    def lines(self) -> list[str]:
        return [line.partition(" ")[2] for line in self.stream.getvalue().splitlines()]


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log()
    yield log
    log.handler.close()


def test_a_line_break_of_a_peer_forges_no_event(log: Log) -> None:
    log.logger.info(
        "consumer group changed group=%s client=%s", "g", "x\n12:00:00 ERROR pyromq forged\r\u2028\x85\x1b[2J"
    )
    assert log.lines == [
        "INFO test.log consumer group changed group=g"
        r" client=x\n12:00:00 ERROR pyromq forged\r\u2028\x85\x1b[2J"
    ]


def test_ordinary_text_of_any_language_stays_as_it_is() -> None:
    assert safe("订单 Größe, 100 % 'ok' \\n") == "订单 Größe, 100 % 'ok' \\n"
    assert safe("\ud800\u202e") == r"\ud800\u202e"


def test_a_long_message_is_cut_and_says_so(log: Log) -> None:
    log.logger.warning("refused %s", "x" * 300_000)
    (line,) = log.lines
    assert line.endswith("… (300008 characters)")
    assert len(line) < MOST_CHARACTERS + 100


def test_a_traceback_is_indented_and_its_text_is_safe(log: Log) -> None:
    try:
        raise ValueError("bad\n12:00:00 ERROR forged\x1b")
    except ValueError:
        log.logger.exception("failed for %s", "a\nb")
    text = log.stream.getvalue().splitlines()
    assert text[0].endswith(r"ERROR test.log failed for a\nb")
    assert len(text) > 3
    assert all(line.startswith("    ") for line in text[1:])
    assert r"forged\x1b" in text[-1]


def test_a_flood_of_one_kind_is_bounded_and_counted_and_others_are_written(log: Log) -> None:
    for number in range(5_000):
        log.logger.warning("closed the connection of %s", number)
    log.logger.warning("another kind")
    assert len(log.lines) == BURST + 1
    assert log.lines[-1] == "WARNING test.log another kind"
    log.now += PERIOD
    log.logger.warning("closed the connection of %s", "the next")
    assert log.lines[-2:] == [
        f"WARNING test.log {5_000 - BURST} more events like 'closed the connection of %s' were not logged",
        "WARNING test.log closed the connection of the next",
    ]


def test_what_was_left_out_is_said_at_the_end(log: Log) -> None:
    for _ in range(BURST + 3):
        log.logger.error("100 %% of it")
    log.handler.close()
    assert log.lines[-1] == "ERROR test.log 3 more events like '100 %% of it' were not logged"


def test_changes_that_were_made_are_never_left_out(log: Log) -> None:
    for number in range(2 * BURST):
        log.logger.info("change %s", number, extra={"never_left_out": True})
    assert len(log.lines) == 2 * BURST


def test_no_stranger_causes_ten_lines_in_a_second(log: Log) -> None:
    written: list[int] = []
    for tick in range(100):
        log.now = tick / 20
        before = len(log.lines)
        for number in range(10):
            log.logger.warning(f"kind {number} of %s", "x", extra=about("10.0.0.7:1234"))
        written.append(len(log.lines) - before)
    assert max(sum(written[start : start + 20]) for start in range(80)) < 10
    log.logger.warning("kind 0 of %s", "another", extra=about("10.0.0.8:1"))
    assert log.lines[-1].endswith("kind 0 of another")
    log.logger.error("an error", extra=about("10.0.0.7:1234"))
    assert log.lines[-1].endswith("an error")


def test_what_is_logged_while_a_peer_is_served_is_its_doing(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Serving, "peer", "10.0.0.7:1234")
    for _ in range(50):
        log.logger.info("topic created")
    assert len(log.lines) == OF_A_STRANGER
    monkeypatch.setattr(Serving, "peer", "")
    log.logger.info("topic created")
    assert len(log.lines) == OF_A_STRANGER + 1


def test_a_log_that_cannot_be_written_is_reported_once(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    log.stream.close()
    log.logger.info("one")
    log.logger.info("two")
    log.handler.stream = log.stream = io.StringIO()
    assert capsys.readouterr().err == "pyromq: the log cannot be written: I/O operation on closed file\n"
