"""The short form: members of a group in separate processes, which are ended and replaced under load."""

from __future__ import annotations

import signal

import pytest

from tests.faults.group_chaos import Plan, run


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
async def test_nothing_is_lost_and_only_what_killed_members_had_in_flight_comes_again(ending: signal.Signals) -> None:
    verdict = await run(Plan(messages=12_000, changes=4, ending=ending, rate=4000))
    print(verdict)
    assert verdict.good, verdict
