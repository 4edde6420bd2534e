"""What keys of `pyromq top` do, and what it shows."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from pyromq.admin import BrokerLoad, GroupLoad, Overview, TopicLoad
from pyromq.cli.top.screen import VIEWS, Screen


def group(name: str, lag: int = 0, behind: float | None = 0.0, rate: float = 0.0) -> GroupLoad:
    return GroupLoad(group=name, members=1, model=None, lag=lag, behind=behind, rate=rate, gets=0)


def topic(name: str, rate: float = 0.0) -> TopicLoad:
    kind = "retry" if name.startswith("%RETRY%") else "topic"
    return TopicLoad(topic=name, kind=kind, rate=rate, byte_rate=rate * 2048, puts=5, put_bytes=500)


OVERVIEW = Overview(
    at=1_700_000_000,
    brokers=(
        BrokerLoad(
            name="broker-a", address="10.0.0.1:10911", version="", put_rate=12.5, get_rate=3, puts=1, gets=1,
            disk_percent=43.2, log_bytes=3 << 30,
        ),
    ),
    topics=(topic("orders", 7), topic("refunds", 9), topic("%RETRY%billing", 100)),
    groups=(group("audit", lag=3, behind=None), group("billing", lag=1_200, behind=75.0), group("TOOLS_CONSUMER")),
    silent_brokers={},
)  # fmt: skip


def text_of(screen: Screen, overview: Overview = OVERVIEW, height: int | None = None, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width, height=height)
    console.print(screen.draw(overview, height))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def names(screen: Screen, overview: Overview = OVERVIEW) -> list[str]:
    return [VIEWS[screen.view][0].value(row) for row in screen.rows(overview)]


def test_groups_come_first_with_the_greatest_lag_on_top() -> None:
    screen = Screen()
    assert names(screen) == ["billing", "audit"]
    shown = text_of(screen)
    assert "1,200" in shown
    assert "75.0 s" in shown
    assert "in 12.5/s, out 3/s" in shown
    assert "groups: 2, by lag" in shown


def test_keys_change_view_order_and_direction() -> None:
    screen = Screen()
    screen.press("2")
    assert (screen.view, names(screen)) == ("topics", ["refunds", "orders"])
    screen.press("r")
    assert names(screen) == ["orders", "refunds"]
    screen.press("\t")
    assert (screen.view, names(screen)) == ("brokers", ["broker-a"])
    screen.press("1")
    for _ in VIEWS["groups"]:
        screen.press("s")
    assert screen.sort == "lag"
    screen.press("a")
    assert "TOOLS_CONSUMER" in names(screen)


def test_a_name_sorts_from_a_to_z_and_an_unknown_value_last() -> None:
    assert names(Screen(sort="group")) == ["audit", "billing"]
    assert names(Screen(sort="behind")) == ["billing", "audit"]


def test_a_filter_is_typed_and_removed() -> None:
    screen = Screen()
    for key in "/AUx\x7f":
        screen.press(key)
    assert screen.is_typing
    assert "filter: AU_" in text_of(screen, height=20)
    screen.press("\r")
    screen.press("q")
    assert (names(screen), screen.is_over) == (["audit"], True)
    for key in "/zz\r":
        screen.press(key)
    assert "no group contains 'zz'" in text_of(screen)
    for key in "/z\x1b":
        screen.press(key)
    assert (screen.filter, len(names(screen))) == ("", 2)


def test_nothing_is_said_in_a_sentence() -> None:
    empty = Overview(at=0, brokers=(), topics=(), groups=(), silent_brokers={"broker-b": "away"})
    shown = {view: text_of(Screen(view), empty) for view in VIEWS}
    assert "there are no groups" in shown["groups"]
    assert "there are no topics" in shown["topics"]
    assert "no name server knows a broker" in shown["brokers"]
    assert "! broker-b does not answer: away" in shown["groups"]


def test_only_the_rows_that_fit_are_drawn_and_keys_scroll() -> None:
    many = Overview(
        at=0, brokers=(), topics=tuple(topic(f"t{number:05}", 1) for number in range(10_000)), groups=(),
        silent_brokers={},
    )  # fmt: skip
    screen = Screen("topics")
    shown = text_of(screen, many, height=20)
    assert len(shown.splitlines()) <= 20
    assert "1 to 14 of 10,000" in shown
    screen.press("j")
    screen.press("d")
    assert "t00021" in text_of(screen, many, height=20).splitlines()[4]
    screen.first = 10**9
    assert "t09999" in text_of(screen, many, height=20)
    for _ in range(3):
        screen.press("k")
    assert "paused" not in text_of(screen, many, height=20)
    screen.press(" ")
    assert "paused" in text_of(screen, many, height=20)


def test_a_narrow_screen_wraps_and_cuts_nothing() -> None:
    name = "a-group-with-quite-a-long-name"
    lonely = Overview(at=0, brokers=(), topics=(), groups=(group(name, lag=5),), silent_brokers={})
    shown = text_of(Screen(), lonely, width=60)
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown


def test_control_characters_of_names_do_not_reach_the_terminal() -> None:
    evil = Overview(
        at=0, brokers=(), topics=(), groups=(group("a\x1b[31mb[bold]"),), silent_brokers={"x\x1b": "\x07"}
    )  # fmt: skip
    shown = text_of(Screen(), evil)
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "[bold]" in shown


@pytest.mark.parametrize("key", ["\x03", "q"])
def test_it_ends(key: str) -> None:
    screen = Screen()
    screen.press("?")
    assert not screen.is_over
    screen.press(key)
    assert screen.is_over


def test_brokers_that_do_not_know_how_busy_topics_are_are_named_instead_of_saying_that_there_are_none() -> None:
    apache = Overview(at=0, brokers=(), topics=(), groups=(), silent_brokers={}, brokers_without_topics=("broker-a",))
    shown = text_of(Screen("topics"), apache)
    assert "! broker-a: Apache's brokers do not say how busy a topic is; see `pyromq topic list`" in shown
    assert "there are no topics" not in shown
    assert "broker-a" not in text_of(Screen("groups"), apache)
