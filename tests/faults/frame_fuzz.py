"""Send hostile frames to a name server and a broker: no request may hold their loop for more than 50 ms.

    python -m tests.faults.frame_fuzz --minutes 60

First come the frames that once stopped a server and some for every request code, then random ones over several
connections at once, among them peers that flood, stop reading, or leave within a frame. An honest client asks all the
time, and its slowest answer is printed.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from pyromq.protocol.codes import RequestCode
from tests.faults.hostile_frames import KILLERS, ROWS, Frame, each_code, frame, random_frame

CONNECTIONS = 6
MOST_MEMORY_MB = 2_500
ANSWER_TIMEOUT = 60.0
WORST_CASE = ("--set", "pyromqMaxQueuesPerTopic=65535", "--set", "pyromqMaxClientBodyBytes=8388608")


class Verdict(Struct):
    """What a campaign found."""

    frames: int = 0
    unanswered: list[str] = field(default_factory=list)
    over: list[dict[str, Any]] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    slowest_honest_ms: float = 0.0
    died: bool = False

    @property
    def good(self) -> bool:
        """Whether nothing held the loop, everything was answered and memory stayed bounded."""
        memory = self.figures.get("most_memory_mb", 0)
        return not (self.over or self.died or self.unanswered) and memory <= MOST_MEMORY_MB


class Servers:
    """The measured servers, as a process."""

    def __init__(self, directory: str, *options: str, on_uvloop: bool) -> None:
        command = [sys.executable, "-m", "tests.faults.measured_server", directory, *["--uvloop"] * on_uvloop]
        command += options
        with (Path(directory) / "errors.log").open("w") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        words = self.process.stdout.readline().split()
        if words[:1] != ["ready"]:
            raise RuntimeError((Path(directory) / "errors.log").read_text()[-4000:])
        self.addresses = {"namesrv": words[1], "broker": words[2], "ha": words[3]}
        self.lines: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def stop(self) -> list[dict[str, Any]]:
        """Stop them; return what they printed."""
        self.process.terminate()
        self.process.wait(60)
        self._reader.join()
        return self.lines

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(json.loads(line))
            if "over_ms" in self.lines[-1]:
                print(line.strip(), flush=True)


class Stranger:
    """A connection that sends frames; the server may close it, and then it connects again."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = host, int(port)
        self._socket: socket.socket | None = None

    def connect(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=ANSWER_TIMEOUT)
        return self._socket

    def leave(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, data: bytes) -> bool:
        """Send a frame; return False if neither an answer nor the end of the connection came."""
        try:
            connection = self.connect()
            connection.sendall(data)
            length = int.from_bytes(self._read(connection, 4), "big")
            self._read(connection, length)
        except TimeoutError:
            self.leave()
            return False
        except (ConnectionError, EOFError):
            self.leave()
        return True

    def _read(self, connection: socket.socket, length: int) -> bytes:
        parts = b""
        while len(parts) < length:
            part = connection.recv(min(length - len(parts), 1 << 20))
            if not part:
                raise EOFError
            parts += part
        return parts


def deliver(stranger: Stranger, each: Frame, verdict: Verdict) -> None:
    """Send a frame and wait for its answer."""
    verdict.frames += 1
    if not stranger.ask(each.data):
        verdict.unanswered.append(f"{each.code} {each.name}")


def misbehave(stranger: Stranger, rng: random.Random, frames: Iterator[Frame]) -> None:
    """Flood, stop reading, or leave within a frame."""
    try:
        connection = stranger.connect()
        connection.settimeout(5)
        kind = rng.randrange(3)
        if kind == 0:
            cheap = frame("cheap", RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"}).data
            connection.sendall(cheap * 20_000)
        elif kind == 1:
            for _ in range(5):
                connection.sendall(next(frames).data)
        else:
            data = next(frames).data
            connection.sendall(data[: rng.randrange(1, len(data))])
    except OSError:
        pass
    stranger.leave()


def attack(target: str, address: str, seed: int, until: float, verdict: Verdict) -> None:
    """Send random frames until a time."""
    rng = random.Random(seed)
    stranger = Stranger(address)

    def frames() -> Iterator[Frame]:
        while True:
            yield random_frame(rng, ROWS[target])

    made = frames()
    while time.monotonic() < until and not verdict.died:
        if rng.random() < 0.05:
            misbehave(stranger, rng, made)
        else:
            deliver(stranger, next(made), verdict)
    stranger.leave()


def ask_honestly(address: str, stop: threading.Event, verdict: Verdict) -> None:
    """Ask for an offset again and again; note the slowest answer."""
    client = Stranger(address)
    question = frame("offset", RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"}).data
    while not stop.wait(0.02):
        began = time.monotonic()
        if not client.ask(question):
            verdict.unanswered.append("an honest client")
        verdict.slowest_honest_ms = max(verdict.slowest_honest_ms, round((time.monotonic() - began) * 1000, 1))
    client.leave()


def campaign(seconds: float, *, seed: int, on_uvloop: bool) -> Verdict:
    """Attack both servers, at least with everything that is known, and for so long with random frames."""
    verdict = Verdict()
    with tempfile.TemporaryDirectory(prefix="pyromq-fuzz-") as directory:
        servers = Servers(directory, *WORST_CASE, on_uvloop=on_uvloop)
        stop = threading.Event()
        honest = threading.Thread(target=ask_honestly, args=(servers.addresses["broker"], stop, verdict))
        honest.start()
        try:
            send_what_is_known(servers, seed, verdict)
            send_random(servers, seed, seconds, verdict)
        finally:
            stop.set()
            honest.join()
            verdict.died = servers.process.poll() is not None
            lines = servers.stop()
        verdict.over = [line for line in lines if "over_ms" in line]
        verdict.figures = next((line for line in lines if "worst_ms" in line), {})
        if verdict.died or not verdict.figures:
            print((Path(directory) / "errors.log").read_text()[-4000:], file=sys.stderr)
    return verdict


def send_what_is_known(servers: Servers, seed: int, verdict: Verdict) -> None:
    """Send the frames that once stopped a server, and some for every code."""
    for target, killers in KILLERS.items():
        stranger = Stranger(servers.addresses[target])
        for each in killers():
            deliver(stranger, each, verdict)
        for each in each_code(random.Random(seed), ROWS[target]):
            deliver(stranger, each, verdict)
        stranger.leave()


def send_random(servers: Servers, seed: int, seconds: float, verdict: Verdict) -> None:
    """Send random frames over several connections at once."""
    until = time.monotonic() + seconds
    targets = ["broker" if number % 3 else "namesrv" for number in range(CONNECTIONS)]
    threads = [
        threading.Thread(target=attack, args=(target, servers.addresses[target], seed + number, until, verdict))
        for number, target in enumerate(targets)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(1)
            verdict.died = servers.process.poll() is not None


def main() -> int:
    parser = argparse.ArgumentParser(description="Hostile frames against a name server and a broker.")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument(
        "--asyncio", action="store_true", help="measure each callback on asyncio's loop, not uvloop's lag"
    )
    options = parser.parse_args()
    print(f"frame_fuzz: seed {options.seed}, {options.minutes:g} minutes", flush=True)
    verdict = campaign(options.minutes * 60, seed=options.seed, on_uvloop=not options.asyncio)
    print(f"frame_fuzz: {verdict.frames} frames, {len(verdict.over)} times over the limit, {verdict.figures}")
    print(f"frame_fuzz: slowest honest answer {verdict.slowest_honest_ms:g} ms, unanswered {verdict.unanswered[:5]}")
    print(f"frame_fuzz: {'good' if verdict.good else 'BAD'}")
    return 0 if verdict.good else 1


if __name__ == "__main__":
    sys.exit(main())
