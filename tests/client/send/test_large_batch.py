"""A batch whose answer is larger than a server would take as a header."""

from __future__ import annotations

from pyromq import Message, Producer
from pyromq.testing import LocalCluster


async def test_the_ids_of_ten_thousand_messages_come_back_in_one_answer() -> None:
    messages = [Message(topic="many", body=b"x") for _ in range(10_000)]
    async with LocalCluster() as cluster, Producer(group="batches", namesrv=cluster.namesrv) as producer:
        results = await producer.send_batch(messages)
    assert len({result.message_id for result in results}) == len(results) == 10_000
    assert sum(len(result.offset_message_id) for result in results) > 256 * 1024
