"""Members of changed groups are told, a few at a time and once for many changes."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import cast

from pyromq.broker.clients.change_notices import AT_A_TIME, ChangeNotices
from pyromq.errors import ConnectionLost
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.connection import Connection


class Member:
    """Notes what it is told; one that is gone raises."""

    def __init__(self, gone: bool = False) -> None:
        self.told: list[object] = []
        self._gone = gone

    def oneway(self, command: RemotingCommand) -> None:
        if self._gone:
            raise ConnectionLost("gone")
        self.told.append(command.ext_fields["consumerGroup"])


def notices(groups: dict[str, list[Member]]) -> ChangeNotices:
    return ChangeNotices(lambda name: cast(list[Connection], groups[name]))


async def test_a_large_group_is_told_a_few_at_a_time() -> None:
    groups = {"large": [Member() for _ in range(3 * AT_A_TIME)], "small": [Member()]}
    telling = notices(groups)
    telling.tell("large")
    telling.tell("small")
    told = []
    while not groups["small"][0].told:
        told.append(sum(len(member.told) for member in groups["large"]))
        await asyncio.sleep(0)
    assert told[0] == 0
    assert all(after - before <= AT_A_TIME for before, after in pairwise(told))
    assert all(member.told == ["large"] for member in groups["large"])


async def test_many_changes_before_the_members_are_told_are_one() -> None:
    groups = {"billing": [Member(), Member(gone=True), Member()]}
    telling = notices(groups)
    for _ in range(5):
        telling.tell("billing")
    await asyncio.sleep(0)
    assert [member.told for member in groups["billing"]] == [["billing"], [], ["billing"]]
    telling.tell("billing")
    await asyncio.sleep(0)
    assert groups["billing"][0].told == ["billing"] * 2
