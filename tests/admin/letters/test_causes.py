"""Dead letters by cause: what differs only in numbers, ids and quoted values is one cause."""

from __future__ import annotations

from pyromq.admin import AdminClient, Letter, Wanted
from pyromq.admin.letters.causes import MOST_IDS, by_cause, common_cause
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.properties import encode_properties
from pyromq.testing import LocalCluster
from tests.admin.letters.test_dead_letters import send_header


def letter(number: int, **properties: str) -> Letter:
    text = encode_properties({"UNIQ_KEY": f"{number:032X}", **properties}).encode()
    return Letter(MessageExt("%DLQ%billing", b"x", text, store_timestamp_ms=1000 * number))


def test_a_cause_loses_what_differs_from_message_to_message() -> None:
    assert common_cause("KeyError: 'o-17' (billing.py:40)") == "KeyError: '…' (billing.py:#)"
    assert common_cause("TimeoutError: 1.5 s") == "TimeoutError: # s"
    assert common_cause("no order 7F0000015BC418B4AAC2000000000000") == "no order #"
    assert common_cause("no order 123e4567-e89b-12d3-a456-426614174000") == "no order #"


def test_letters_are_grouped_the_largest_group_first() -> None:
    letters = [letter(n, PYROMQ_CAUSE=f"KeyError: '{n}'", RETRY_TOPIC="orders") for n in range(9, 0, -1)]
    letters += [letter(20), letter(21, PYROMQ_CAUSE="ValueError", RETRY_TOPIC="refunds")]
    first, *rest = by_cause(letters)
    assert (first.cause, first.count, first.example, first.topics) == ("KeyError: '…'", 9, "KeyError: '9'", ("orders",))
    assert (first.first.timestamp(), first.last.timestamp()) == (1.0, 9.0)
    assert first.ids == tuple(f"{n:032X}" for n in range(9, 9 - MOST_IDS, -1))
    assert [(group.cause, group.count) for group in rest] == [(None, 1), ("ValueError", 1)]


async def test_causes_of_a_group_are_counted_up_to_a_limit(cluster: LocalCluster) -> None:
    async with AdminClient(cluster.namesrv) as admin:
        for number in range(6):
            cause = "KeyError: 'a'" if number % 3 else "ValueError"
            header = send_header(f"RETRY_TOPIC\x01orders\x02PYROMQ_CAUSE\x01{cause}\x02n\x01{number}")
            await admin.api.send(cluster.brokers[0].address, header, b"x")
        found = await admin.dead_letters.causes("billing")
        assert [(group.cause, group.count) for group in found.groups] == [("KeyError: '…'", 4), ("ValueError", 2)]
        assert (found.counted, found.is_whole) == (6, True)
        some = await admin.dead_letters.causes("billing", Wanted(where="n >= 3"))
        assert some.counted == 3
        cut = await admin.dead_letters.causes("billing", most=4)
        assert (cut.counted, cut.is_whole) == (4, False)
