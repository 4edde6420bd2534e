"""SentSoon is a Future like any other, whoever comes first: the one who waits or the one who settles it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, as_completed, wait

import pytest

from pyromq.client.send.sent_soon import SentSoon
from pyromq.client.send_result import SendResult, SendStatus
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import MessageQueue

RESULT = SendResult(SendStatus.SEND_OK, "id", "place", MessageQueue("t", "b", 0), 7)


@pytest.fixture
def ended() -> list[Future[SendResult]]:
    return []


@pytest.fixture
def future(ended: list[Future[SendResult]]) -> SentSoon:
    return SentSoon(threading.Lock(), ended.append)


def test_a_result_is_there_for_all_who_ask_later(future: SentSoon, ended: list[Future[SendResult]]) -> None:
    assert not future.done()
    assert not future.cancel(), "the message may be on its way"
    assert not ended
    future.set_result(RESULT)
    called: list[object] = []
    future.add_done_callback(called.append)
    assert future.done()
    assert future.result(0) is RESULT
    assert future.exception(0) is None
    assert called == ended == [future]
    assert list(as_completed([future])) == [future]
    assert wait([future], 0).done == {future}


@pytest.mark.parametrize("watched", [False, True], ids=["nobody looked", "somebody looked"])
def test_an_error_is_raised_to_whoever_asks(future: SentSoon, watched: bool) -> None:
    if watched:
        with pytest.raises(TimeoutError):
            future.result(0)
    future.set_exception(ClientError("not open"))
    assert future.done()
    assert isinstance(future.exception(0), ClientError)
    with pytest.raises(ClientError, match="not open"):
        future.result(0)


def test_a_callback_that_ends_the_program_does_not_end_the_loop(
    future: SentSoon, ended: list[Future[SendResult]], caplog: pytest.LogCaptureFixture
) -> None:
    future.add_done_callback(lambda _: sys.exit(3))
    future.set_result(RESULT)
    assert ended == [future]
    assert "SystemExit(3) in a callback of a send is ignored" in caplog.text


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns after nearly every step
    yield
    sys.setswitchinterval(before)


def test_nobody_waits_in_vain_however_the_threads_take_turns(hasty_threads: None) -> None:
    guard = threading.Lock()
    ended: list[SentSoon] = []
    futures = [SentSoon(guard, ended.append) for _ in range(300)]
    called: list[object] = []
    for future in futures[::3]:
        future.add_done_callback(called.append)

    def settle() -> None:
        for future in futures:
            future.set_result(RESULT)

    def watch() -> None:
        for future in futures:
            future.add_done_callback(called.append)

    def ask() -> None:
        for future in reversed(futures):
            future.result(60)

    threads = [threading.Thread(target=work) for work in (settle, watch, ask)]
    for thread in threads:
        thread.start()
    assert wait(futures, 60).done == set(futures)
    assert len(list(as_completed(futures, 60))) == 300
    for thread in threads:
        thread.join(60)
    assert len(called) == 400
    assert sorted(map(id, ended)) == sorted(map(id, futures))
