"""Keys of the terminal, one by one as they are pressed."""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_ARROWS = {"\x1b[A": "k", "\x1b[B": "j", "\x1b[5~": "u", "\x1b[6~": "d", "\x1bOA": "k", "\x1bOB": "j"}


@contextmanager
def pressed_keys() -> Iterator[asyncio.Queue[str]]:
    """Fill a queue with the keys that are pressed while the block runs; it stays empty if stdin is no terminal."""
    keys: asyncio.Queue[str] = asyncio.Queue()
    if sys.platform == "win32" or not _is_terminal():
        yield keys
        return
    import termios
    import tty

    number = sys.stdin.fileno()
    decoder = codecs.getincrementaldecoder("utf-8")(errors="ignore")
    before = termios.tcgetattr(number)
    loop = asyncio.get_running_loop()
    try:
        tty.setcbreak(number)
        loop.add_reader(number, lambda: _put(keys, split_keys(decoder.decode(_read(number)))))
        yield keys
    finally:
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def split_keys(text: str) -> list[str]:
    """Return the keys in what a terminal sent; arrows become the letters that scroll, other sequences vanish."""
    keys: list[str] = []
    while text:
        for sequence, meaning in _ARROWS.items():
            if text.startswith(sequence):
                keys.append(meaning)
                text = text[len(sequence) :]
                break
        else:
            if text.startswith("\x1b["):  # a key that means nothing here
                text = text[2:].lstrip("0123456789;")[1:]
                continue
            keys.append(text[0])
            text = text[1:]
    return keys


def _put(keys: asyncio.Queue[str], pressed: list[str]) -> None:
    for key in pressed:
        keys.put_nowait(key)


def _is_terminal() -> bool:
    try:
        return sys.stdin is not None and os.isatty(sys.stdin.fileno())
    except (OSError, ValueError):
        return False


def _read(number: int) -> bytes:
    try:
        return os.read(number, 1024)
    except OSError:
        return b""
