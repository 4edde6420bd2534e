"""Offsets of many queues: arithmetic, and the JSON form used in checkpoints and in startingOffsets."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pyromq.errors import ConfigError
from pyromq.protocol.messages.message import MessageQueue

Offsets = dict[MessageQueue, int]
OffsetsJson = dict[str, dict[str, dict[str, int]]]
"""`{"topic": {"broker": {"queue": offset}}}`; nested, because a topic may contain any separator."""

_BEGINNING: Final = "(beginning)"
"""Where the offsets of a first batch say at which it begins; no topic has such a name."""

EARLIEST, LATEST = -2, -1
_FORM = '{"topic": {"broker": {"0": 12, "1": -2}}}'


class QueueSlice(NamedTuple):
    """The messages of one queue from offset `start` up to, but not including, `stop`."""

    queue: MessageQueue
    start: int
    stop: int


def queue_name(queue: MessageQueue) -> str:
    """Return a queue's name for error messages."""
    return "/".join(map(str, queue))


def to_json(offsets: Offsets) -> OffsetsJson:
    """Return the JSON form with sorted keys: Spark compares the text, so another order would look like new data."""
    result: OffsetsJson = {}
    for queue in sorted(offsets, key=lambda queue: (queue.topic, queue.broker_name, str(queue.queue_id))):
        result.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return result


def from_json(value: Any) -> Offsets:
    """Read the JSON form; raise ConfigError if it is malformed."""
    return {
        MessageQueue(topic, broker_name, _queue_id(queue)): _offset(offset)
        for topic, brokers in _object(value).items()
        if topic != _BEGINNING
        for broker_name, queues in _object(brokers).items()
        for queue, offset in _object(queues).items()
    }


def with_beginning(end: Offsets, beginning: Offsets) -> dict[str, Any]:
    """Return the JSON form of where a first batch ends, which also says where it begins."""
    return {**to_json(end), _BEGINNING: to_json(beginning)}


def beginning_of(value: dict[str, Any]) -> Offsets | None:
    """Return where a batch begins, if it is a first one that says so."""
    return from_json(value[_BEGINNING]) if _BEGINNING in value else None


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"offsets have the form {_FORM}, not {value!r} in it")
    return value


def _queue_id(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ConfigError(f"offsets have the form {_FORM}; {text!r} is not a queue id")
    return int(text)


def _offset(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < EARLIEST:
        raise ConfigError(
            f"{value!r} is not an offset; expected a number from 0, {LATEST} (latest) or {EARLIEST} (earliest)"
        )
    return value


def slices(start: Offsets, end: Offsets) -> list[QueueSlice]:
    """Return the ranges between two sets of offsets; `start` has every queue of `end`."""
    return [QueueSlice(queue, start[queue], end[queue]) for queue in sorted(end) if start[queue] < end[queue]]


def limited(start: Offsets, end: Offsets, most: int) -> Offsets:
    """Return `end` moved back so that at most `most` offsets lie between, divided among queues by backlog.

    Every queue with a backlog advances, as long as `most` allows one message for each.
    """
    backlog = {queue: end[queue] - start[queue] for queue in sorted(end) if end[queue] > start[queue]}
    total = sum(backlog.values())
    if total <= most:
        return end
    served = sorted(backlog, key=lambda queue: -backlog[queue])[:most]
    spare, rest = most - len(served), sum(backlog[queue] for queue in served) - len(served)
    shares = {queue: 1 + (backlog[queue] - 1) * spare // max(rest, 1) for queue in served}
    unfilled = [queue for queue in served if shares[queue] < backlog[queue]]
    for queue in unfilled[: most - sum(shares.values())]:  # the remainder of rounding down
        shares[queue] += 1
    return end | {queue: start[queue] + shares.get(queue, 0) for queue in backlog}
