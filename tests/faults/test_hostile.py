"""The short form of the campaign of rude clients."""

from __future__ import annotations

import pytest

from tests.faults.hostile.__main__ import Campaign
from tests.faults.hostile.behaviours import BEHAVIOURS


def test_there_are_forty_behaviours_and_each_says_what_it_does() -> None:
    assert len(BEHAVIOURS) >= 40
    assert [name for name, function in BEHAVIOURS.items() if not (function.__doc__ or "").endswith(".")] == []


@pytest.mark.parametrize("name", ["half_sent_frames", "reads_slowly"])
def test_a_good_client_does_not_notice(name: str) -> None:
    """Latencies are judged by `make torture`; here, errors, memory, passes of the loop and lines of log are."""
    verdict = Campaign(1.5, noisy=True).run(name)
    assert verdict.faults == [], verdict
