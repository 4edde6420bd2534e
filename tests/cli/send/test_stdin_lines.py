"""Lines of standard input as they arrive."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from io import TextIOWrapper

import pytest

from pyromq.cli.send import stdin_lines as module
from pyromq.cli.send.stdin_lines import stdin_lines
from pyromq.errors import ClientError


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The end of a pipe whose other end is standard input."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as raw:
        monkeypatch.setattr("sys.stdin", TextIOWrapper(raw))
        yield writing
        with suppress(OSError):
            os.close(writing)
        for thread in threading.enumerate():
            if thread.name == "pyromq stdin":  # it would read from whatever gets the number next
                thread.join(30)


async def test_a_line_is_there_before_the_next_is_typed(typed: int) -> None:
    lines = stdin_lines()
    os.write(typed, b"one\ntw")
    assert await anext(lines) == b"one"
    os.write(typed, b"o\r\n\nlast")
    assert [await anext(lines), await anext(lines)] == [b"two", b""]
    os.close(typed)
    assert [line async for line in lines] == [b"last"]


async def test_a_reader_that_waits_can_be_cancelled(typed: int) -> None:
    waiting = asyncio.ensure_future(anext(stdin_lines()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_line_without_end_is_an_error(typed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_LINE", 10)
    os.write(typed, b"short\n" + b"x" * 11)
    with pytest.raises(ClientError, match="line 2 is longer than 10 bytes"):
        [line async for line in stdin_lines()]


async def test_a_closed_input_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ClientError, match="standard input is closed"):
        await anext(stdin_lines())
