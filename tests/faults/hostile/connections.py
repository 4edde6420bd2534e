"""What is done with connections, and with bytes that are no requests."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import suppress

from pyromq.protocol.codes import RequestCode as Code
from tests.faults.hostile.target import Target, drop_answers, pull, request, send, send_quietly

MEBI = 1 << 20
LARGEST = 16 * MEBI
RESET = struct.pack("ii", 1, 0)


def idle_flood(target: Target) -> None:
    """Open far more connections than the server has descriptors, and say nothing."""
    target.crowd(4_000)
    target.stay()


def idle_flood_of_name_server(target: Target) -> None:
    """The same at the name server."""
    target.crowd(2_000, target.namesrv)
    target.stay()


def one_request_each(target: Target) -> None:
    """Open many connections that each ask once and then stay."""
    question = request(Code.GET_MAX_OFFSET, {"topic": "rude", "queueId": "0"})
    for each in target.crowd(1_000):
        send_quietly(each, question)
    target.stay()


def churn(target: Target) -> None:
    """Connect and leave, as fast as possible."""
    for _ in target.rounds():
        with target.once():
            pass


def churn_with_requests(target: Target) -> None:
    """Connect, ask, and reset the connection before the answer."""
    question = request(Code.GET_BROKER_RUNTIME_INFO)
    for _ in target.rounds():
        with target.once() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            connection.sendall(question)


def slow_drip(target: Target) -> None:
    """Send a frame byte by byte, over many connections."""
    frame = request(Code.GET_MAX_OFFSET, {"topic": "rude", "queueId": "0"})
    dripping = target.crowd(300)
    for number in target.rounds(0.05):
        for each in dripping:
            send_quietly(each, frame[number % len(frame) : number % len(frame) + 1])


def half_sent_frames(target: Target) -> None:
    """Send half of 16 MiB, over many connections, and stop."""
    half = struct.pack(">II", LARGEST - 4, 100) + bytes(LARGEST // 2)
    for each in target.crowd(64):
        send_quietly(each, half)
    target.stay()


def half_sent_again_and_again(target: Target) -> None:
    """Send half of 16 MiB, leave, and come again."""
    half = struct.pack(">II", LARGEST - 4, 100) + bytes(LARGEST // 2)
    for _ in target.rounds():
        with target.once() as connection:
            connection.sendall(half)


def dripping_large_frames(target: Target) -> None:
    """Begin frames of 16 MiB, and go on with a kilobyte at a time."""
    begun = target.crowd(40)
    for each in begun:
        send_quietly(each, struct.pack(">II", LARGEST - 4, 100) + bytes(MEBI))
    for _ in target.rounds(0.1):
        for each in begun:
            send_quietly(each, bytes(1024))


def announced_frames(target: Target) -> None:
    """Announce 16 MiB over a thousand connections, and send nothing of it."""
    for each in target.crowd(1_000):
        send_quietly(each, struct.pack(">I", LARGEST - 4))
    target.stay()


def never_reads(target: Target) -> None:
    """Pull a topic over many connections, and never read an answer."""
    _fill(target)
    question = pull("rude-full") * 50
    for each in target.crowd(60):
        send_quietly(each, question)
    target.stay()


def reads_slowly(target: Target) -> None:
    """Pull a topic over many connections, and read a kilobyte at a time."""
    _fill(target)
    readers = target.crowd(60)
    for each in readers:
        send_quietly(each, pull("rude-full") * 50)
    for _ in target.rounds(0.1):
        for each in readers:
            with suppress(OSError):
                each.recv(1024, socket.MSG_DONTWAIT)


def never_reads_lists(target: Target) -> None:
    """Ask for the longest lists, and never read them."""
    codes = (Code.GET_ALL_TOPIC_CONFIG, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.GET_BROKER_CONFIG)
    question = b"".join(map(request, codes)) * 200
    for each in target.crowd(50):
        send_quietly(each, question)
    target.stay()


def pipelines(target: Target) -> None:
    """Write requests without a pause over one connection, and drop the answers."""
    question = request(Code.GET_MAX_OFFSET, {"topic": "rude", "queueId": "0"})
    target.ask_all_the_time(iter(lambda: question * 2_000, b""))


def pipelines_over_many(target: Target) -> None:
    """Write requests without a pause over fifty connections."""
    question = request(Code.GET_MAX_OFFSET, {"topic": "rude", "queueId": "0"})
    target.ask_all_the_time(iter(lambda: question * 200, b""), connections=50)


def speaks_http(target: Target) -> None:
    """Ask for a page, as a browser or a scanner would."""
    _repeat(target, b"GET / HTTP/1.1\r\nHost: broker\r\nUser-Agent: x\r\n\r\n" * 3)


def speaks_tls(target: Target) -> None:
    """Begin a TLS handshake, and never end it."""
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(505)
    _repeat(target, hello)


def speaks_ssh(target: Target) -> None:
    """Greet as an SSH client."""
    _repeat(target, b"SSH-2.0-OpenSSH_9.6\r\n")


def sends_junk(target: Target) -> None:
    """Send random bytes."""
    for _ in target.rounds():
        with target.once() as connection:
            connection.sendall(target.chance.randbytes(4096))


def junk_for_slaves(target: Target) -> None:
    """Send random bytes to the port for slaves, and stay there."""
    for _ in target.rounds(0.005):
        connection = target.connect(target.ha)
        if connection is not None:
            send_quietly(connection, target.chance.randbytes(64))
        if len(target.sockets) > 200:
            target.sockets.pop(0).close()


def pretends_to_be_a_slave(target: Target) -> None:
    """Report an offset to the port for slaves, and never read the log."""
    for _ in target.rounds(0.05):
        connection = target.connect(target.ha)
        if connection is not None:
            send_quietly(connection, struct.pack(">q", 0))
        if len(target.sockets) > 20:
            target.sockets.pop(0).close()


def negative_lengths(target: Target) -> None:
    """Announce frames of negative length."""
    _repeat(target, struct.pack(">ii", -5, 10) + bytes(100))


def empty_frames(target: Target) -> None:
    """Send frames without a byte, over and over."""
    for _ in target.rounds():
        with target.once() as connection:
            connection.sendall(struct.pack(">I", 0) * 50_000)


def huge_frames(target: Target) -> None:
    """Announce two gigabytes."""
    _repeat(target, struct.pack(">I", 2**31 - 1) + bytes(100))


def huge_headers(target: Target) -> None:
    """Announce headers that are longer than their frame, or as long as a frame may be."""
    frames = [struct.pack(">II", 1000, 5000) + bytes(996), struct.pack(">II", LARGEST - 4, LARGEST - 8) + b"[" * MEBI]
    for number in target.rounds():
        with target.once() as connection:
            connection.sendall(frames[number % 2])
            drop_answers(connection)


def unknown_serializations(target: Target) -> None:
    """Send headers in forms that nobody knows."""
    _repeat(target, struct.pack(">II", 104, 99 << 24 | 100) + bytes(100))


def broken_binary_headers(target: Target) -> None:
    """Send binary headers whose fields have negative or endless lengths."""
    for length in target.rounds():
        ext = struct.pack(">hi", -1, 2**31 - 1) + bytes(length % 50)
        header = struct.pack(">hbhii", Code.SEND_MESSAGE_V2, 0, 399, 1, 0) + struct.pack(">ii", -1, len(ext)) + ext
        with target.once() as connection:
            connection.sendall(struct.pack(">II", 4 + len(header), 1 << 24 | len(header)) + header)


def _repeat(target: Target, data: bytes) -> None:
    for _ in target.rounds():
        with target.once() as connection:
            connection.sendall(data)
            connection.recv(1)


def _fill(target: Target) -> None:
    """Have a topic with some megabytes."""
    with target.once() as connection:
        connection.settimeout(2)
        for _ in range(64):
            connection.sendall(send("rude-full", bytes(64 * 1024)))
            connection.recv(65536)
    time.sleep(0.2)
