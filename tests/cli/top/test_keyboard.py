"""Keys, as a terminal sends them."""

from __future__ import annotations

import asyncio
import os
import pty
import sys

import pytest

from pyromq.cli.top.keyboard import pressed_keys, split_keys


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("qs", ["q", "s"]),
        ("\x1b[A\x1b[Bx", ["k", "j", "x"]),
        ("\x1b[6~", ["d"]),
        ("\x1b", ["\x1b"]),
        ("\x1b[1;5Ca", ["a"]),
        ("", []),
    ],
)
def test_arrows_scroll_and_unknown_sequences_mean_nothing(sent: str, keys: list[str]) -> None:
    assert split_keys(sent) == keys


async def test_keys_of_a_terminal_arrive_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    with os.fdopen(slave, "r") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        with pressed_keys() as keys:
            os.write(master, "q\N{LATIN SMALL LETTER E WITH ACUTE}".encode())
            assert await asyncio.wait_for(keys.get(), 30) == "q"
            assert await asyncio.wait_for(keys.get(), 30) == "\N{LATIN SMALL LETTER E WITH ACUTE}"
    os.close(master)


async def test_without_a_terminal_there_are_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pressed_keys() as keys:
        assert keys.empty()
