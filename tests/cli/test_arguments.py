"""How times, durations and settings are written on the command line."""

from __future__ import annotations

from datetime import datetime, timedelta
from io import StringIO

import pytest
import typer

from pyromq.cli.arguments import confirm, namesrv_addresses, parse_duration, parse_time, split_assignment
from pyromq.errors import ClientError


def test_durations_are_written_as_people_do() -> None:
    assert parse_duration("1d12h", "--delay") == timedelta(days=1, hours=12)
    assert parse_duration("1.5m", "--delay") == timedelta(seconds=90)
    assert parse_duration("500ms", "--delay") == timedelta(milliseconds=500)
    for text in ("", "h", "10 s", "-1s", "1w", "9" * 30 + "d"):
        with pytest.raises(typer.BadParameter):
            parse_duration(text, "--delay")


def test_a_time_without_a_zone_is_local() -> None:
    assert parse_time("2026-01-31T12:00", "--at") == datetime(2026, 1, 31, 12)
    with pytest.raises(typer.BadParameter, match="--to must be earliest or a time such as"):
        parse_time("soon", "--to", "earliest or ")


@pytest.mark.parametrize("text", ["0001-01-01", "0001-01-01T00:00+14:00", "9999-12-31T23:59-14:00"])
def test_a_time_outside_the_calendar_is_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is out of range"):
        parse_time(text, "--from")


def test_a_setting_is_split_at_its_first_equals_sign() -> None:
    assert split_assignment(" key = a=b ") == ("key", "a=b")
    for text in ("key", "=value"):
        with pytest.raises(typer.BadParameter, match="--conf must be key=value"):
            split_assignment(text, "--conf")


def test_an_option_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "10.0.0.1:9876")
    assert namesrv_addresses("10.0.0.2:9876") == "10.0.0.2:9876"
    assert namesrv_addresses(None) == "10.0.0.1:9876"
    monkeypatch.delenv("NAMESRV_ADDR")
    assert namesrv_addresses(None) == "127.0.0.1:9876"


@pytest.mark.parametrize("answer", ["", "n\n", "\n"])
def test_without_a_yes_nothing_is_done(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", StringIO(answer))
    with pytest.raises(ClientError, match="not confirmed, nothing was changed; --yes does not ask"):
        confirm("Delete everything?")
    monkeypatch.setattr("sys.stdin", StringIO("y\n"))
    confirm("Delete everything?")
