"""Handlers at the top of a module, as processes need them."""

from __future__ import annotations

import os
import signal
import time

from msgspec import Struct

from pyromq import App, MessageExt

app = App("shop")


class Picture(Struct):
    name: str
    size: int = 1


class Thumbnail(Struct):
    name: str
    pid: int


class Odd(Exception):
    """An exception that no other process can read."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one)


@app.on("pictures", group="thumbnails", processes=2)
@app.publishes("thumbnails")
def shrink(picture: Picture, message: MessageExt) -> Thumbnail:
    """Do what the picture's name says."""
    if picture.name == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if picture.name == "hang":
        time.sleep(60)
    if picture.name == "fail":
        raise FileNotFoundError("no such picture")
    if picture.name == "odd":
        raise Odd("a", "b")
    return Thumbnail(f"{picture.name} of {message.topic}", os.getpid())
