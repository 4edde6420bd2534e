"""The clients of bench/crowd.py: thousands of connections in one process, and senders that keep a rate.

It speaks the protocol by itself, in JSON frames, and imports nothing of PyroMQ: so it measures any version of it, and
costs the machine little.
"""

from __future__ import annotations

import asyncio
import json
import random
import struct
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter, time
from typing import Any

SEND_V2, PULL, CREATE_TOPIC, HEART_BEAT = 310, 11, 17, 34
SUCCESS = 0
COMMIT_SUSPEND_AND_SUBSCRIPTION = 1 | 2 | 4
HEARTBEAT_PERIOD = 30.0
PATIENCE = 120.0

Answer = Callable[[int, dict[str, str]], None]
Request = tuple[int, dict[str, str], bytes]


def frame(code: int, opaque: int, fields: dict[str, str], body: bytes = b"") -> bytes:
    """Return a request."""
    header = json.dumps(
        {"code": code, "language": "JAVA", "version": 409, "opaque": opaque, "flag": 0, "extFields": fields}
    ).encode()
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


class Client(asyncio.Protocol):
    """One connection: requests with a function to call for each answer. Requests of the broker are passed over."""

    def __init__(self) -> None:
        self.answered: dict[int, Answer] = {}
        self.lost = False
        self._rest = b""
        self._opaque = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"", answer: Answer | None = None) -> None:
        """Send a request; `answer` is called with the code and the fields of its answer."""
        self._opaque += 1
        if answer is not None:
            self.answered[self._opaque] = answer
        self.transport.write(frame(code, self._opaque, fields, body))

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        start = 0
        while len(data) - start >= 8:
            length, head = struct.unpack_from(">ii", data, start)
            if len(data) - start < 4 + length:
                break
            header = json.loads(data[start + 8 : start + 8 + (head & 0xFFFFFF)])
            start += 4 + length
            answer = self.answered.pop(header["opaque"], None) if header["flag"] & 1 else None
            if answer is not None:
                answer(header["code"], header.get("extFields") or {})
        self._rest = data[start:]


async def connect(address: str) -> Client:
    """Open a connection."""
    host, _, port = address.rpartition(":")
    return (await asyncio.get_running_loop().create_connection(Client, host, int(port)))[1]


def topic_name(number: int) -> str:
    return f"topic-{number:06d}"


def group_name(number: int) -> str:
    return f"group-{number:06d}"


# --- the crowd: consumers that hold a pull each, and clients that only send heartbeats


class Crowd:
    """Connections `first` to `last`, of which those below `pulls` consume one queue each."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self.connected = self.answers = self.errors = self.messages = 0
        self.clients: list[Client] = []

    async def run(self, report: Callable[[dict[str, int]], None]) -> None:
        """Connect all, one after another at a rate, and report; then go on until cancelled."""
        loop = asyncio.get_running_loop()
        begun, rate = loop.time(), self._options["rate"]
        for index, number in enumerate(range(self._options["first"], self._options["last"])):
            await asyncio.sleep(begun + index / rate - loop.time())
            await self._join(number)
        report(self.counts())
        await asyncio.Event().wait()

    def counts(self) -> dict[str, int]:
        """Return what happened so far."""
        lost = sum(client.lost for client in self.clients)
        return {
            "connected": self.connected,
            "lost": lost,
            "pull_answers": self.answers,
            "messages": self.messages,
            "errors": self.errors,
        }

    async def _join(self, number: int) -> None:
        client = await connect(self._options["address"])
        self.clients.append(client)
        self.connected += 1
        self._beat(client, number)
        if number < self._options["pulls"]:
            self._pull(client, number, self._options["depth"])

    def _beat(self, client: Client, number: int) -> None:
        if client.lost:
            return
        client.ask(HEART_BEAT, {}, json.dumps(self._heartbeat(number)).encode())
        asyncio.get_running_loop().call_later(HEARTBEAT_PERIOD, self._beat, client, number)

    def _heartbeat(self, number: int) -> dict[str, Any]:
        client_id = f"10.0.0.1@{number}"
        if number >= self._options["pulls"]:
            return {"clientID": client_id, "producerDataSet": [{"groupName": "crowd"}], "consumerDataSet": []}
        wanted = {
            "topic": self._topic(number), "subString": "*", "tagsSet": [], "codeSet": [], "subVersion": 1,
            "classFilterMode": False, "expressionType": "TAG",
        }  # fmt: skip
        consumer = {
            "groupName": self._group(number), "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": [wanted], "unitMode": False,
        }  # fmt: skip
        return {"clientID": client_id, "producerDataSet": [], "consumerDataSet": [consumer]}

    def _group(self, number: int) -> str:
        return group_name(number % self._options["groups"])

    def _topic(self, number: int) -> str:
        return topic_name(number % self._options["groups"] % self._options["topics"])

    def _pull(self, client: Client, number: int, offset: int) -> None:
        def pulled(code: int, fields: dict[str, str]) -> None:
            self.answers += 1
            if "nextBeginOffset" in fields:
                self.messages += code == SUCCESS
                self._pull(client, number, int(fields["nextBeginOffset"]))
            else:
                self.errors += 1
                asyncio.get_running_loop().call_later(1.0, self._pull, client, number, offset)

        queue_id = number // self._options["groups"] % self._options["queues"]
        fields = {
            "consumerGroup": self._group(number), "topic": self._topic(number), "queueId": str(queue_id),
            "queueOffset": str(offset), "maxMsgNums": "32", "sysFlag": str(COMMIT_SUSPEND_AND_SUBSCRIPTION),
            "commitOffset": str(offset), "suspendTimeoutMillis": "15000", "subscription": "*", "subVersion": "1",
            "expressionType": "TAG",
        }  # fmt: skip
        if not client.lost:
            client.ask(PULL, fields, answer=pulled)


# --- senders


def send_fields(topic: str, queue_id: int) -> dict[str, str]:
    """Return the fields of a send."""
    values = ("crowd", topic, "TBW102", "8", str(queue_id), "0", str(int(time() * 1000)), "0", "", "0", "false")
    return dict(zip("abcdefghijk", values, strict=True)) | {"m": "false"}


async def fill(address: str, topics: int, queues: int, in_flight: int = 256) -> float:
    """Send one message to every queue; return the seconds that it took."""
    client = await connect(address)
    places = [(topic_name(topic), queue) for topic in reversed(range(topics)) for queue in range(queues)]
    left = len(places)
    done = asyncio.Event()
    begun = perf_counter()

    def send_next() -> None:
        if places:
            place = places.pop()
            client.ask(SEND_V2, send_fields(*place), b"first", lambda code, _: answered(code, place))

    def answered(code: int, place: tuple[str, int]) -> None:
        nonlocal left
        left -= code == SUCCESS
        if code != SUCCESS:  # too busy for a moment
            places.append(place)
        if left:
            send_next()
        else:
            done.set()

    for _ in range(in_flight):
        send_next()
    await done.wait()
    client.transport.close()
    return perf_counter() - begun


class Steady:
    """Requests at fixed times; a latency counts from the time at which its request was due."""

    def __init__(self, client: Callable[[], Client], rate: float, request: Callable[[], Request]) -> None:
        self.seconds: list[float] = []
        self.errors = 0
        self._client = client
        self._rate = rate
        self._request = request
        self._sent = 0
        self._is_last = False
        self._done = asyncio.Event()

    async def run(self, seconds: float) -> None:
        """Keep the rate for some seconds, then wait for the last answers."""
        begun = perf_counter()
        while self._sent < self._rate * seconds:
            due = begun + self._sent / self._rate
            wait = due - perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            self._sent += 1
            code, fields, body = self._request()
            self._client().ask(code, fields, body, self._noted(due))
        self._is_last = True
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._done.wait()

    def _noted(self, due: float) -> Answer:
        def note(code: int, fields: dict[str, str]) -> None:
            self.seconds.append(perf_counter() - due)
            self.errors += code != SUCCESS
            if self._is_last and len(self.seconds) == self._sent:
                self._done.set()

        return note

    def figures(self) -> dict[str, float]:
        """Return percentiles in milliseconds."""
        found = sorted(self.seconds) or [0.0]

        def at(share: float) -> float:
            return round(found[min(int(len(found) * share), len(found) - 1)] * 1000, 2)

        return {
            "count": len(self.seconds),
            "unanswered": self._sent - len(self.seconds),
            "errors": self.errors,
            "p50_ms": at(0.5),
            "p99_ms": at(0.99),
            "max_ms": at(1.0),
        }


async def measure(
    address: str, *, topics: int, queues: int, rate: float, seconds: float, creations: float, first_new: int
) -> dict[str, dict[str, float]]:
    """Send to random topics at a rate and, at another rate, create topics; return the percentiles of both."""
    clients = [await connect(address) for _ in range(16)]
    maker = await connect(address)
    numbers = iter(range(first_new, 1_000_000_000))
    body = bytes(200)

    def send() -> Request:
        return SEND_V2, send_fields(topic_name(random.randrange(topics)), random.randrange(queues)), body

    def create() -> Request:
        return CREATE_TOPIC, {
            "topic": f"new-{next(numbers):08d}", "defaultTopic": "TBW102", "readQueueNums": str(queues),
            "writeQueueNums": str(queues), "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0",
            "order": "false",
        }, b""  # fmt: skip

    sends = Steady(lambda: random.choice(clients), rate, send)
    creates = Steady(lambda: maker, creations, create)
    await asyncio.gather(sends.run(seconds), *([creates.run(seconds)] if creations else []))
    for client in (*clients, maker):
        client.transport.close()
    return {"sends": sends.figures(), **({"creations": creates.figures()} if creations else {})}
