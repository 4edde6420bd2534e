"""Conversations: sequences of requests of all codes with a live broker and its name server, in this process.

    python -m tests.faults.fuzz.conversations --minutes 60

Requests of one conversation use few names, and what the servers answered: offsets, ids, transactions. So they meet: a
topic is deleted while a pull of it waits, a transaction is ended twice, a group is reset that is somebody's now. Then
both servers are closed and started again, and a message must go through.

A finding is an error in the log, an exception that nobody caught, a request without an answer, one that takes more than
a second of CPU time, or more memory than twice its frame, its answer and a constant.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.server import Broker
from pyromq.clock import SystemClock
from pyromq.errors import ConnectionLost, LocalProtocolError, RequestTimeout
from pyromq.namesrv.server import NameServer
from pyromq.protocol.codes import RequestCode as Code
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.connection import Connection
from tests.broker.helpers import pull_header, send_header
from tests.faults.fuzz.questions import Questions
from tests.faults.hostile_frames import ROWS

CONNECTIONS: Final = 3
ANSWER_TIMEOUT: Final = 60.0
MOST_CPU: Final = 1.0
MOST_MEMORY: Final = 8 << 20
WATCHED: Final = 7  # one request in so many has its memory watched: that is slow
LEFT_OUT: Final = {
    Code.REGISTER_BROKER: "a false broker would take the place of ours",
    Code.UNREGISTER_BROKER: "the same",
}


class Talk(Struct):
    """What some conversations were, and what they found."""

    requests: int = 0
    conversations: int = 0
    cpu_seconds: float = 0.0
    answers: Counter[int] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def find(self, what: str) -> None:
        """Note a finding."""
        if len(self.findings) < 100:
            self.findings.append(what[:2000])
            print(f"conversations: {what[:2000]}", flush=True)


class _Errors(logging.Handler):
    """Notes errors in the log."""

    def __init__(self, talk: Talk) -> None:
        super().__init__(logging.ERROR)
        self._talk = talk
        self._format = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        self._talk.find(f"in the log: {self._format.format(record)[-1500:]}")


class Conversation:
    """One broker, one name server, and a few clients that ask them."""

    def __init__(self, directory: Path, seed: int, talk: Talk) -> None:
        self._directory = directory
        self._rng = random.Random(seed)
        self._seed = seed
        self._talk = talk
        self._questions = Questions(self._rng)
        self._clock = SystemClock()

    async def run(self, count: int) -> None:
        """Ask so many questions; then start both servers again, and send and receive a message."""
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: self._talk.find(f"uncaught: {context}"))
        async with self._servers() as (addresses, clients):
            for _ in range(count):
                target = "namesrv" if self._rng.random() < 0.15 else "broker"
                code = self._questions.code(ROWS[target])
                if code not in LEFT_OUT:
                    await self._ask(self._rng.choice(clients), addresses[target], self._question(target, code), code)
        async with self._servers() as (addresses, clients):
            await self._send_and_receive(clients[0], addresses["broker"])
        self._talk.conversations += 1

    @asynccontextmanager
    async def _servers(self) -> AsyncIterator[tuple[dict[str, str], list[RemotingClient]]]:
        data = self._directory
        async with NameServer(host="127.0.0.1", port=0, clock=self._clock, data_dir=data / "namesrv") as namesrv:
            settings = {
                "listenPort": "0", "storePathRootDir": str(data / "store"), "brokerIP1": "127.0.0.1",
                "namesrvAddr": namesrv.address, "brokerName": "broker-a", "enablePropertyFilter": "true",
                "mappedFileSizeCommitLog": "16777216", "maxHashSlotNum": "10000", "maxIndexNum": "40000",
                "transactionCheckInterval": "1000",
                "brokerFastFailureEnable": "false", "osPageCacheBusyTimeOutMills": "60000",
            }  # fmt: skip
            async with Broker(broker_config(settings), self._clock) as broker:
                clients = [RemotingClient(self._clock, handlers=_Deaf()) for _ in range(CONNECTIONS)]
                try:
                    yield {"namesrv": namesrv.address, "broker": broker.address}, clients
                finally:
                    for client in clients:
                        await client.close()

    def _question(self, target: str, code: int) -> RemotingCommand:
        ext, body = self._questions.ask(ROWS[target][code])
        return request(code, ext, body, oneway=self._rng.random() < 0.03)

    async def _ask(self, client: RemotingClient, address: str, command: RemotingCommand, code: int) -> None:
        self._talk.requests += 1
        watched = self._talk.requests % WATCHED == 0
        if watched:
            tracemalloc.start()
        began, size, answer = time.process_time(), 0, None
        try:
            size = len(command.encode())
            if command.is_oneway:
                await client.oneway(address, command)
                await asyncio.sleep(0)
            else:
                answer = await client.request(address, command, ANSWER_TIMEOUT)
        except RequestTimeout:
            self._talk.find(f"seed {self._seed}: no answer to {code} {_shown(command)}")
        except (ConnectionLost, LocalProtocolError):
            pass  # a bad header closes a connection
        finally:
            took = time.process_time() - began
            most = tracemalloc.get_traced_memory()[1] if watched else 0
            tracemalloc.stop()
        answered = len(answer.body) if answer is not None else 0
        if most > 2 * (size + answered) + MOST_MEMORY:
            self._talk.find(f"seed {self._seed}: {most >> 20} MiB for {size} bytes of {code} {_shown(command)}")
        if took > MOST_CPU and not watched:
            self._talk.find(f"seed {self._seed}: {took:.1f} s of CPU time for {code} {_shown(command)}")
        if answer is not None:
            self._talk.answers[answer.code] += 1
            self._questions.learn(answer)

    async def _send_and_receive(self, client: RemotingClient, address: str) -> None:
        body = b"after %d" % self._seed
        sent = await client.request(
            address, request(Code.SEND_MESSAGE_V2, send_header("afterwards"), body), ANSWER_TIMEOUT
        )
        if sent.code != ResponseCode.SUCCESS:
            self._talk.find(f"seed {self._seed}: a send afterwards is refused: {sent.code} {sent.remark}")
            return
        header = pull_header("afterwards", suspend_timeout_millis=0, queue_id=int(sent.ext_fields["queueId"]))
        got = await client.request(address, request(Code.PULL_MESSAGE, header), ANSWER_TIMEOUT)
        if body not in got.body:
            self._talk.find(f"seed {self._seed}: the message sent afterwards is not there: {got.code} {got.remark}")


class _Deaf(dict[int, Any]):
    """The handlers of clients that answer everything the broker asks with an error."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(Code, _refuse))


def _refuse(command: RemotingCommand, connection: Connection) -> RemotingCommand:
    return RemotingCommand(ResponseCode.SYSTEM_ERROR, command.opaque, 1, remark="no")


def _shown(command: RemotingCommand) -> str:
    return f"{str(command.ext)[:300]} {command.body[:200]!r}"


def talk(seconds: float, seed: int, count: int, most: int = sys.maxsize) -> Talk:
    """Have conversations of `count` requests for so long, at least one and at most so many."""
    found = Talk()
    errors = _Errors(found)
    logger = logging.getLogger("pyromq")
    logger.addHandler(errors)
    began = time.process_time()
    try:
        while not found.conversations or (time.process_time() - began < seconds and found.conversations < most):
            with tempfile.TemporaryDirectory(prefix="pyromq-talk-") as directory:
                before = found.conversations
                asyncio.run(Conversation(Path(directory), seed + before, found).run(count))
                if found.conversations == before:
                    break
    finally:
        logger.removeHandler(errors)
    found.cpu_seconds = time.process_time() - began
    return found


def main() -> int:
    from tests.faults.fuzz.__main__ import record

    parser = argparse.ArgumentParser(prog="conversations", description="Sequences of requests of all codes.")
    parser.add_argument("--minutes", type=float, default=60.0, help="of CPU time")
    parser.add_argument("--requests", type=int, default=1_000, help="in one conversation")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--record", action="store_true", help="add a row to FUZZING.md")
    options = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL)
    print(f"conversations: seed {options.seed}, {options.minutes:g} minutes", flush=True)
    found = talk(options.minutes * 60, options.seed, options.requests)
    answers = {ResponseCode(code).name if code in set(ResponseCode) else code: n for code, n in found.answers.items()}
    print(f"conversations: {found.conversations}, {found.requests:,} requests, {found.cpu_seconds:.0f} s, {answers}")
    if options.record:
        record(f"{found.conversations} conversations", found.requests, found.cpu_seconds, len(found.findings))
    print(f"conversations: {'BAD' if found.findings else 'good'}")
    return 1 if found.findings else 0


if __name__ == "__main__":
    sys.exit(main())
