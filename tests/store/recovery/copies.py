"""What the tests of raw appends and cuts share: a store with all kinds of messages, and comparing two stores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hypothesis import strategies as st

from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, Record
from pyromq.protocol.tag_filter import tag_code
from pyromq.store.message_store import MessageStore
from tests.store.helpers import HOST, log_files, read_queue

KEYS = [f"key{number}" for number in range(6)]
TOPICS = ["orders", "bills"]

Sent = tuple[str, int, int, str, int]
"""Topic, queue id, length of the body, key, sys flag."""

sent_messages: st.SearchStrategy[list[Sent]] = st.lists(
    st.tuples(
        st.sampled_from(TOPICS),
        st.integers(0, 2),
        st.integers(0, 900),
        st.sampled_from(KEYS),
        st.sampled_from([0, 0, 0, 0, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK]),
    ),
    max_size=25,
)


def record(sent: Sent, number: int = 0) -> Record:
    """Return a message; its body names its number."""
    topic, queue_id, length, key, sys_flag = sent
    return Record(
        topic=topic,
        queue_id=queue_id,
        body=b"%d-" % number + b"x" * length,
        properties=encode_properties({"TAGS": key[-1], "KEYS": key, "UNIQ_KEY": f"id{number}"}).encode(),
        tags_code=tag_code(key[-1]),
        sys_flag=sys_flag,
        store_host=HOST,
    )


def fill(store: MessageStore, sent: Sequence[Sent], first_number: int = 0) -> list[int]:
    """Store messages one by one; return where each of them ends in the log."""
    ends = []
    for number, one in enumerate(sent, first_number):
        place = store.put(record(one, number))
        store.commit()
        ends.append(place.physical_offset + place.size)
    return ends


def raw_log(root: Path) -> bytes:
    """Return all bytes of the log's files."""
    return b"".join(file.read_bytes() for file in log_files(root))


def copied_log(store: MessageStore) -> bytes:
    """Return the bytes of the log from its beginning to its end."""
    data = raw_log(store.config.root) if store.max_physical_offset > store.min_physical_offset else b""
    return data[: store.max_physical_offset - store.min_physical_offset]


def content(store: MessageStore) -> dict[str, object]:
    """Return all that a store answers: two stores with the same content are the same to whoever asks them."""
    queues = [(topic, queue_id) for topic in TOPICS for queue_id in store.queue_ids(topic)]
    return {
        "log": (store.min_physical_offset, store.max_physical_offset, copied_log(store)),
        "queues": {
            queue: (
                store.min_offset(*queue),
                store.next_offset(*queue),
                store.raw_entries(*queue, store.min_offset(*queue), store.max_offset(*queue)),
                [found.stored_body for found in read_queue(store, *queue)],  # a damaged flag may say: compressed
            )
            for queue in queues
            if store.max_offset(*queue) > 0
        },
        "index": {
            (topic, key): store.find(topic, key, 64)
            for topic in TOPICS
            for key in [*KEYS, *map("id{}".format, range(60))]
        },
    }


def chunks(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """Part bytes into pieces of these sizes, again and again."""
    pieces, at, turn = [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        pieces.append(data[at : at + size])
        at, turn = at + size, turn + 1
    return pieces
