"""Listeners that raise, hang and are cancelled as the fates of their messages demand, and write everything down."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from pyromq import Ack, ConsumeHook, DeadLetter, MessageExt, RetryLater, Suspend
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.messages.properties import RETRY_TOPIC
from pyromq.protocol.names import retry_topic
from tests.faults.actors.roles import CONSUME_TIMEOUT, Fate, Role, fate_of
from tests.faults.journal import Delivered, Finished, Journal

SEPARATOR = b"|"


class Unprintable(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Odd(BaseException):
    """An exception that `except Exception` does not catch."""


class SilentHook(ConsumeHook):
    """A hook that does nothing: messages take another way through the consumer."""


class Listening:
    """The listener of one member in one life."""

    def __init__(self, role: Role, journal: Journal, seed: int) -> None:
        self._role = role
        self._journal = journal
        self._seed = seed
        self._calls = itertools.count(1)
        self._tries: Counter[str] = Counter()

    @property
    def listener(self) -> Callable[..., Any]:
        """The function for a PushConsumer."""
        if self._role.batch > 1:
            return self._listen_to_batch
        return self._listen_on_thread if self._role.threads else self._listen

    # --- what is written down

    def delivered(self, message: MessageExt, call: int = 0) -> None:
        """Note that a message was handed over."""
        self._journal.write(Delivered, **self._fields(message), call=call)

    def finished(self, message: MessageExt, result: str = "acknowledged") -> None:
        """Note what became of it."""
        self._journal.write(Finished, **self._fields(message), result=result)

    def _fields(self, message: MessageExt) -> dict[str, Any]:
        group = self._role.group
        topic = retry_topic(group) if RETRY_TOPIC in message.properties else message.topic
        return {
            "group": group,
            "queue": MessageQueue(topic, message.broker_name or "", message.queue_id),
            "offset": message.queue_offset,
            "value": value_of(message),
            "times": message.reconsume_times,
        }

    # --- what is done

    async def _listen(self, message: MessageExt) -> None:
        self.delivered(message)
        try:
            await self._suffer(message)
        except BaseException as error:
            self.finished(message, _result(error))
            raise
        self.finished(message)

    def _listen_on_thread(self, message: MessageExt) -> None:
        self.delivered(message)
        fate = self._fate(message)
        if fate.mishap == "hang":
            self.finished(message, "failed")  # before it hangs: the consumer gives it up long before it returns
            time.sleep(2 * CONSUME_TIMEOUT)
            return
        error = _error(fate, self._role)
        if error is not None:
            self.finished(message, _result(error))
            raise error
        self.finished(message)

    async def _listen_to_batch(self, messages: list[MessageExt]) -> Ack | None:
        call = next(self._calls)
        for message in messages:
            self.delivered(message, call)
        done = 0
        try:
            for message in messages:
                await self._suffer(message)
                done += 1
        except BaseException as error:
            if not done or not isinstance(error, Exception) or isinstance(error, DeadLetter):
                for message in messages:  # all share its fate, also those before it
                    self.finished(message, _result(error))
                raise
        behind = "untried" if self._role.orderly else "failed"  # a concurrent group sends them back: that counts
        for number, message in enumerate(messages):
            self.finished(message, "acknowledged" if number < done else "failed" if number == done else behind)
        return Ack(first=done) if done < len(messages) else None

    def _fate(self, message: MessageExt) -> Fate:
        value = value_of(message)
        fate = fate_of(self._seed, self._role, value)
        self._tries[value] += 1  # a consumer may count less than we do, but must not try for ever
        tried = max(message.reconsume_times, self._tries[value] - 1)
        return fate if tried < fate.tries or fate.mishap in ("reject", "poison") else Fate("", 0)

    async def _suffer(self, message: MessageExt) -> None:
        fate = self._fate(message)
        match fate.mishap:
            case "cancelled":  # something that it awaits is cancelled by others
                other = asyncio.ensure_future(asyncio.sleep(60))
                other.cancel()
                await other
            case "hang":  # an orderly listener is never cancelled, so it must end by itself
                await asyncio.sleep(CONSUME_TIMEOUT / 4 if self._role.orderly else 10 * CONSUME_TIMEOUT)
            case _:
                error = _error(fate, self._role)
                if error is not None:
                    raise error
                await asyncio.sleep(0.001)


def value_of(message: MessageExt) -> str:
    """Return the value that a body begins with."""
    return message.body.partition(SEPARATOR)[0].decode()


def _error(fate: Fate, role: Role) -> BaseException | None:
    match fate.mishap:
        case "raise" | "poison":
            return ValueError("a listener that fails\x00 \ud800")
        case "unprintable":
            return Unprintable()
        case "odd":
            return Odd("not an Exception")
        case "cancelled":
            return asyncio.CancelledError()
        case "later":
            return Suspend(0.05) if role.orderly else RetryLater(0.3)
        case "reject":
            return DeadLetter("no use")
    return None


def _result(error: BaseException) -> str:
    return "rejected" if isinstance(error, DeadLetter) else "failed"
