"""Sending copies again: after which failures the job checks what is stored, and which end it."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.errors import TaskRepeated
from pyromq.pipelines.common.copies import send_missing

ALL, REST = object(), object()
DEATH = "Python worker exited unexpectedly"
REPEATED = "pyromq.errors.TaskRepeated: partition 3 was started before and failed"
GIVEN_UP = "pyromq.errors.NoRoute: no name server knows a broker for the topic 'gone'"


class FakeTracker:
    """A tracker that reports the rest of all copies as missing."""

    def missing(self, copies: object) -> object:
        assert copies is ALL
        return REST


def _send(failures: list[str], *, begun: bool = False) -> list[object]:
    """Send through failures, one for each attempt; return what was sent in each."""
    sent: list[object] = []

    def send(copies: object) -> None:
        sent.append(copies)
        if len(sent) <= len(failures):
            raise RuntimeError(failures[len(sent) - 1])

    tracker: Any = FakeTracker()
    copies: Any = ALL
    send_missing(copies, tracker, send, begun=begun)
    return sent


def test_what_was_never_begun_is_sent_as_it_is_and_a_run_that_was_cut_looks_first() -> None:
    assert _send([]) == [ALL]
    assert _send([], begun=True) == [REST]


@pytest.mark.parametrize("failure", [DEATH, REPEATED])
def test_after_a_death_only_what_is_missing_is_sent(failure: str) -> None:
    assert _send([failure, failure]) == [ALL, REST, REST]


def test_what_the_sink_gave_up_is_not_tried_again() -> None:
    with pytest.raises(RuntimeError, match="no name server"):
        _send([GIVEN_UP])


def test_deaths_without_end_end_the_job() -> None:
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        _send([DEATH] * 4)


def test_the_sign_of_a_task_that_runs_again_is_the_name_of_its_error() -> None:
    assert REPEATED.startswith(f"{TaskRepeated.__module__}.{TaskRepeated.__qualname__}: ")
