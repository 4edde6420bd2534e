"""What a behaviour attacks, and the tools that it has."""

from __future__ import annotations

import json
import random
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from msgspec import Struct, field

from pyromq.protocol.codes import RequestCode as Code

GIVE_UP: Final = 0.5
"""Seconds that a socket waits: whoever attacks does not care for answers."""


class Target(Struct):
    """The ports of a broker and a name server, and until when they are attacked."""

    broker: str
    namesrv: str
    ha: str
    until: float
    chance: random.Random = field(default_factory=lambda: random.Random(5))
    sockets: list[socket.socket] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self.until

    def rounds(self, pause: float = 0.0) -> Iterator[int]:
        """Count until the time is over."""
        number = 0
        while not self.is_over:
            yield number
            number += 1
            if pause:
                time.sleep(pause)

    def connect(self, address: str = "") -> socket.socket | None:
        """Return a connection that stays open; None if it was refused."""
        host, _, port = (address or self.broker).rpartition(":")
        try:
            made = socket.create_connection((host, int(port)), timeout=GIVE_UP)
        except OSError:
            return None
        self.sockets.append(made)
        return made

    def crowd(self, count: int, address: str = "") -> list[socket.socket]:
        """Return so many connections, or as many as are accepted."""
        made = [self.connect(address) for _ in range(count) if not self.is_over]
        return [each for each in made if each is not None]

    @contextmanager
    def once(self, address: str = "") -> Iterator[socket.socket]:
        """Connect, and leave in any case; what fails on the way is the attacker's business."""
        made = self.connect(address)
        if made is None:
            made = socket.socket()  # nothing can be sent over it
            time.sleep(0.01)
        else:
            self.sockets.remove(made)
        with made, suppress(OSError):
            yield made

    def ask_all_the_time(self, frames: Iterator[bytes], address: str = "", connections: int = 1) -> None:
        """Send frames over some connections, and drop the answers; connect again when one is closed."""
        open_ones = self.crowd(connections, address)
        for number in self.rounds():
            if not open_ones:
                open_ones = self.crowd(1, address)
                continue
            each = open_ones[number % len(open_ones)]
            try:
                each.sendall(next(frames))
                drop_answers(each)
            except TimeoutError:
                continue
            except OSError:
                open_ones.remove(each)
                open_ones += self.crowd(1, address)

    def stay(self) -> None:
        """Do nothing until the time is over."""
        while not self.is_over:
            time.sleep(0.05)


def drop_answers(connection: socket.socket) -> None:
    """Read what is there, without waiting for more."""
    with suppress(BlockingIOError):
        while connection.recv(1 << 20, socket.MSG_DONTWAIT):
            pass


def send_quietly(connection: socket.socket, data: bytes) -> bool:
    """Send as much as is taken; return False if the other side has closed."""
    try:
        connection.sendall(data)
    except TimeoutError:
        return True
    except OSError:
        return False
    return True


def request(code: int, ext: dict[str, str] | None = None, body: bytes = b"", **head: Any) -> bytes:
    """Return a frame with a JSON header."""
    fields = {"code": code, "flag": 0, "language": "JAVA", "opaque": 1, "version": 399, "extFields": ext or {}} | head
    header = json.dumps(fields).encode()
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


def send(topic: str, body: bytes = b"x", properties: str = "", sys_flag: int = 0, **head: Any) -> bytes:
    """Return a send to a topic."""
    ext = {"a": "rude", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": str(sys_flag), "g": "1", "h": "0"}
    return request(Code.SEND_MESSAGE_V2, ext | {"i": properties, "j": "0", "k": "false", "m": "false"}, body, **head)


def pull(topic: str, queue: int = 0, offset: int = 0, suspend_ms: int = 0, **more: str) -> bytes:
    """Return a pull, which waits if it says how long."""
    ext = {"consumerGroup": "rude", "topic": topic, "queueId": str(queue), "queueOffset": str(offset)}
    ext |= {"maxMsgNums": "1000", "sysFlag": str(4 | (2 if suspend_ms else 0)), "commitOffset": "0"}
    ext |= {"suspendTimeoutMillis": str(suspend_ms), "subscription": "*", "subVersion": "1", "expressionType": "TAG"}
    return request(Code.PULL_MESSAGE, ext | more)


def heartbeat(client: str, producers: list[str], consumers: list[str], topic: str = "rude") -> bytes:
    """Return a heartbeat of a client in some groups."""
    subscriptions = [{"topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG"}]
    body = {
        "clientID": client,
        "producerDataSet": [{"groupName": name} for name in producers],
        "consumerDataSet": [{"groupName": name, "subscriptionDataSet": subscriptions} for name in consumers],
    }
    return request(Code.HEART_BEAT, {}, json.dumps(body).encode())
