"""The load generator of `bench send` and `bench consume`: raw frames, callbacks, a closed loop on every connection.

It uses the plain protocol (JSON headers), so it measures any RocketMQ 4.x broker. A connection has a number of slots,
each with one request in flight. The slot's number is the `opaque` of its requests. An answer frees its slot, which
sends its next request at once. All answers of one read are handled before one write.
"""

from __future__ import annotations

import array
import asyncio
import struct
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, cast

import msgspec

from pyromq.protocol.acl import ACCESS_KEY, SIGNATURE, Credentials, Signer
from pyromq.protocol.names import TBW102
from pyromq.remoting.tls.client_tls import environment_tls

_LENGTH = struct.Struct(">i")
_LENGTHS = struct.Struct(">iI")
_FIRST_OPAQUE = 10_000_000  # eight digits, so that every frame of a slot has the same length


class AnswerHeader(msgspec.Struct, gc=False):
    """The fields of an answer's header that the generator reads."""

    code: int = 0
    opaque: int = 0
    remark: str | None = None
    extFields: dict[str, str] | None = None


_decode = msgspec.json.Decoder(AnswerHeader).decode


class Slot(Protocol):
    """One request in flight: makes the next request, and counts the messages of an answer."""

    def renumber(self, index: int) -> None:
        """Set the slot's number within its connection, which becomes the opaque."""

    def next_request(self) -> bytes: ...

    def accept(self, answer: AnswerHeader, body: bytes) -> int:
        """Return the number of messages in this answer; raise ValueError if it counts as an error."""
        ...


class LoadCounts:
    """Totals of all connections: messages, errors, latencies in microseconds."""

    def __init__(self) -> None:
        self.errors = 0
        self.lost = 0
        self.first_error = ""
        self.start_counting()

    def start_counting(self) -> None:
        """Reset the messages of the warm-up, but not its errors."""
        self.messages = 0
        self.latencies_us = array.array("I")

    def percentile(self, share: float) -> float:
        """Return the latency in milliseconds that `share` of the answers did not exceed."""
        ordered = sorted(self.latencies_us)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] / 1000 if ordered else 0.0


class LoadConnection(asyncio.Protocol):
    """One connection with its slots."""

    def __init__(self, slots: Sequence[Slot], counts: LoadCounts, budget: Callable[[], bool]) -> None:
        self._slots = slots
        self._counts = counts
        self._budget = budget
        self._sent_at = [0] * len(slots)
        self._outstanding = 0
        self._rest = b""
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport does not inherit from it
        self._write([self._frame(index) for index in range(len(self._slots)) if self._budget()])

    def data_received(self, data: bytes) -> None:
        now, start = time.perf_counter_ns(), 0
        data = self._rest + data if self._rest else data
        requests: list[bytes] = []
        while len(data) - start >= 8:
            end = start + 4 + _LENGTH.unpack_from(data, start)[0]
            if end > len(data):
                break
            body_start = start + 8 + (_LENGTHS.unpack_from(data, start)[1] & 0xFFFFFF)
            self._accept(_decode(data[start + 8 : body_start]), data[body_start:end], now, requests)
            start = end
        self._rest = data[start:]
        self._write(requests)

    def _accept(self, answer: AnswerHeader, body: bytes, now: int, requests: list[bytes]) -> None:
        index = answer.opaque - _FIRST_OPAQUE
        self._outstanding -= 1
        try:
            self._counts.messages += self._slots[index].accept(answer, body)
            self._counts.latencies_us.append((now - self._sent_at[index]) // 1000)
        except ValueError as error:
            self._counts.errors += 1
            self._counts.first_error = self._counts.first_error or str(error)
        if self._budget():
            requests.append(self._frame(index))

    def _frame(self, index: int) -> bytes:
        self._outstanding += 1
        self._sent_at[index] = time.perf_counter_ns()
        return self._slots[index].next_request()

    def _write(self, requests: list[bytes]) -> None:
        if requests:
            self._transport.write(b"".join(requests))
        elif not self._outstanding and not self.finished.done():
            self.finished.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._counts.lost += self._outstanding
        if not self.finished.done():
            self.finished.set_result(None)

    def close(self) -> None:
        self._transport.close()


def json_header(code: int, fields: dict[str, str], index: int) -> bytes:
    """Return the JSON header of a request of slot `index`."""
    ext = ",".join(f'"{name}":"{value}"' for name, value in fields.items())
    opaque = _FIRST_OPAQUE + index
    return (
        f'{{"code":{code},"flag":0,"language":"PYTHON","opaque":{opaque},"version":409,"extFields":{{{ext}}}}}'.encode()
    )


class SendSlot:
    """Sends one message after another to one queue, each with its own id."""

    def __init__(self, number: int, topic: str, queue_id: int, body: bytes, seed: str, group: str, tag: str) -> None:
        properties = f"UNIQ_KEY\\u0001{seed[:16].upper():0<16}%016X\\u0002WAIT\\u0001true"
        properties += f"\\u0002TAGS\\u0001{tag}" if tag else ""
        self._fields = {
            "a": group, "b": topic, "c": TBW102, "d": "4", "e": str(queue_id), "f": "0", "g": "%013d", "h": "0",
            "i": properties, "j": "0", "k": "false", "m": "false",
        }  # fmt: skip
        self._body = body
        self._count = number << 40
        self.renumber(0)

    def renumber(self, index: int) -> None:
        # The two numbers are filled in with a fixed number of digits, so the lengths do not change.
        self._header = json_header(310, self._fields, index)
        length = len(self._header % (0, 0))
        self._prefix = _LENGTHS.pack(4 + length + len(self._body), length)

    def next_request(self) -> bytes:
        self._count += 1
        return b"".join((self._prefix, self._header % (int(time.time() * 1000), self._count), self._body))

    def accept(self, answer: AnswerHeader, body: bytes) -> int:
        if answer.code not in (0, 10, 11, 12):
            raise ValueError(f"code {answer.code}: {answer.remark}")
        return 1


class SignedSendSlot(SendSlot):
    """Sends the same messages with an account and a signature, as Java's clients sign them."""

    def __init__(self, account: Credentials, *given: Any) -> None:
        self._account = account
        self._signer = Signer(account.secret_key)
        super().__init__(*given)

    def renumber(self, index: int) -> None:
        signed = {ACCESS_KEY: self._account.access_key, SIGNATURE: "%b"}
        self._header = json_header(310, self._fields | signed, index)
        length = len(self._header % (0, 0, b"=" * 28))
        self._prefix = _LENGTHS.pack(4 + length + len(self._body), length)
        values = "".join([self._account.access_key, *self._fields.values()])
        self._signed = values.replace("\\u0001", "\x01").replace("\\u0002", "\x02").encode()

    def next_request(self) -> bytes:
        self._count += 1
        now_ms = int(time.time() * 1000)
        proof = self._signer.signature(self._signed % (now_ms, self._count), self._body)
        return b"".join((self._prefix, self._header % (now_ms, self._count, proof), self._body))


class PullSlot:
    """Reads one queue from start to end, again and again."""

    def __init__(self, number: int, topic: str, queue_id: int, low: int, high: int, batch: int, group: str) -> None:
        self._fields = {
            "consumerGroup": group, "topic": topic, "queueId": str(queue_id), "queueOffset": "%d",
            "maxMsgNums": str(batch), "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0",
            "subscription": "*", "subVersion": "0", "expressionType": "TAG",
        }  # fmt: skip
        self._low, self._high = low, high
        # Slots of one queue start at different offsets; otherwise all would read the same page.
        self._offset = low + (number * 7919 * batch) % max(high - low, 1)
        self.renumber(0)

    def renumber(self, index: int) -> None:
        self._header = json_header(11, self._fields, index)

    def next_request(self) -> bytes:
        header = self._header % self._offset
        return _LENGTHS.pack(4 + len(header), len(header)) + header

    def accept(self, answer: AnswerHeader, body: bytes) -> int:
        if answer.code not in (0, 19, 20):
            raise ValueError(f"code {answer.code}: {answer.remark}")
        following = int((answer.extFields or {}).get("nextBeginOffset", self._low))
        self._offset = self._low if following >= self._high or answer.code == 19 else following
        return count_records(body)


def count_records(body: bytes) -> int:
    """Return the number of records in the body of a pull answer."""
    position, count = 0, 0
    while position < len(body):
        size = _LENGTH.unpack_from(body, position)[0]
        if size <= 0:
            raise ValueError(f"a record of size {size} in an answer")
        position += size
        count += 1
    return count


def slot_groups(connections: int, in_flight: int, make: Callable[[int], Slot]) -> Sequence[Sequence[Slot]]:
    """Make the slots of every connection. `make` gets a number over all connections."""
    groups = []
    for connection in range(connections):
        group = []
        for index in range(in_flight):
            slot = make(connection * in_flight + index)
            slot.renumber(index)
            group.append(slot)
        groups.append(group)
    return groups


async def drive(
    addresses: Sequence[tuple[str, int]],
    slots: Sequence[Sequence[Slot]],
    counts: LoadCounts,
    budget: Callable[[], bool],
) -> None:
    """Open a connection for each group of slots, to the addresses in turn, and run until the budget is spent."""
    loop = asyncio.get_running_loop()
    tls = environment_tls()
    context = None if tls is None else tls.context()
    opened: list[LoadConnection] = []
    try:
        for number, own in enumerate(slots):
            host, port = addresses[number % len(addresses)]
            make = partial(LoadConnection, own, counts, budget)
            _, connection = await loop.create_connection(make, host, port, ssl=context)
            opened.append(connection)
        await asyncio.gather(*(connection.finished for connection in opened))
    finally:
        for connection in opened:
            connection.close()
