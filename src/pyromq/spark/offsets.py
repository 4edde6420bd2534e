"""Offsets of many queues: their JSON form, which is that of checkpoints and of startingOffsets, and sums over them."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyromq.errors import ConfigError
from pyromq.protocol.messages.message import MessageQueue

Offsets = dict[MessageQueue, int]
OffsetsJson = dict[str, dict[str, dict[str, int]]]
"""`{"topic": {"broker": {"queue": offset}}}`: topics may hold any separator one could choose, so there is none."""

EARLIEST, LATEST = -2, -1
_FORM = '{"topic": {"broker": {"0": 12, "1": -2}}}'


class QueueSlice(NamedTuple):
    """The messages of one queue from offset `start` up to, not including, `stop`."""

    queue: MessageQueue
    start: int
    stop: int


def queue_name(queue: MessageQueue) -> str:
    """Return a queue as error messages name it."""
    return "/".join(map(str, queue))


def to_json(offsets: Offsets) -> OffsetsJson:
    """Return the JSON form, keys sorted: Spark compares the text, and another order would be new data to it."""
    result: OffsetsJson = {}
    for queue in sorted(offsets, key=lambda queue: (queue.topic, queue.broker_name, str(queue.queue_id))):
        result.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return result


def from_json(value: Any) -> Offsets:
    """Read the JSON form; raise ConfigError if it has another one."""
    return {
        MessageQueue(topic, broker_name, _queue_id(queue)): _offset(offset)
        for topic, brokers in _object(value).items()
        for broker_name, queues in _object(brokers).items()
        for queue, offset in _object(queues).items()
    }


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"offsets have the form {_FORM}, not {value!r} in it")
    return value


def _queue_id(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ConfigError(f"offsets have the form {_FORM}; {text!r} is no queue")
    return int(text)


def _offset(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < EARLIEST:
        raise ConfigError(
            f"{value!r} is no offset; expected a number from 0, {LATEST} (latest) or {EARLIEST} (earliest)"
        )
    return value


def slices(start: Offsets, end: Offsets) -> list[QueueSlice]:
    """Return what lies between two sets of offsets, queue by queue; `start` has every queue of `end`."""
    return [QueueSlice(queue, start[queue], end[queue]) for queue in sorted(end) if start[queue] < end[queue]]


def limited(start: Offsets, end: Offsets, most: int) -> Offsets:
    """Return `end` moved back so that no more than `most` offsets lie between, shared out by backlog.

    Every queue with a backlog gets on, as long as `most` allows one for each.
    """
    backlog = {queue: end[queue] - start[queue] for queue in sorted(end) if end[queue] > start[queue]}
    total = sum(backlog.values())
    if total <= most:
        return end
    served = sorted(backlog, key=lambda queue: -backlog[queue])[:most]
    spare, rest = most - len(served), sum(backlog[queue] for queue in served) - len(served)
    shares = {queue: 1 + (backlog[queue] - 1) * spare // max(rest, 1) for queue in served}
    unfilled = [queue for queue in served if shares[queue] < backlog[queue]]
    for queue in unfilled[: most - sum(shares.values())]:  # what rounding down has left
        shares[queue] += 1
    return end | {queue: start[queue] + shares.get(queue, 0) for queue in backlog}
