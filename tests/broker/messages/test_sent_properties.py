from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.broker.messages.deferred_messages import has_level, is_prepared, is_timed
from pyromq.broker.messages.sent_properties import PropertyWriter, stored_in_batch
from pyromq.errors import MessageIllegal
from pyromq.protocol.messages.properties import decode_properties, encode_properties
from pyromq.protocol.tag_filter import tag_code

WRITER = PropertyWriter("DefaultCluster")

names = st.sampled_from(
    ["TAGS", "MYTAGS", "WAIT", "MYWAIT", "KEYS", "UNIQ_KEY", "CLUSTER", "DEL", "DELAY", "A", "TRAN_MSGX"]
)
values = st.one_of(
    st.sampled_from(["true", "false", "0", "a", "TAGS", "WAIT\x01true", "x\x01TAGS\x01y", "TRUE"]),
    st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=8),
)


def oracle(sent: str) -> tuple[dict[str, str], int]:
    """Return what is stored, the plain way: all properties read, some changed."""
    properties = decode_properties(sent)
    properties.pop("WAIT", None)
    properties["CLUSTER"] = "DefaultCluster"
    return properties, tag_code(properties.get("TAGS"))


@given(st.dictionaries(names, values), st.booleans())
def test_the_quick_way_stores_what_the_plain_way_would(properties: dict[str, str], trailing: bool) -> None:
    sent = encode_properties(properties) + ("\x02" if trailing and properties else "")
    stored, code, special = WRITER.stored(sent)
    assert (decode_properties(stored), code) == oracle(sent)
    assert special is not None or "DELAY" not in properties
    assert not stored.endswith(b"\x02")


def test_cluster_is_added_and_wait_removed() -> None:
    stored, code, _ = WRITER.stored("KEYS\x01k\x02WAIT\x01true\x02TAGS\x01TagA")
    assert stored == b"KEYS\x01k\x02TAGS\x01TagA\x02CLUSTER\x01DefaultCluster"
    assert code == 2598919


@pytest.mark.parametrize("sent", [None, ""])
def test_a_message_without_properties_still_gets_its_cluster(sent: str | None) -> None:
    assert WRITER.stored(sent) == (b"CLUSTER\x01DefaultCluster", 0, None)


def test_a_cluster_of_the_sender_is_overwritten() -> None:
    assert decode_properties(WRITER.stored("CLUSTER\x01other")[0]) == {"CLUSTER": "DefaultCluster"}


DELAYS = ["DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "__STARTDELIVERTIME"]


@pytest.mark.parametrize("name", DELAYS)
def test_a_delayed_message_is_noticed_and_never_part_of_a_batch(name: str) -> None:
    special = WRITER.stored(f"KEYS\x01k\x02{name}\x013")[2]
    assert special is not None
    assert has_level(special) == (name == "DELAY")
    assert is_timed(special) == (name != "DELAY")
    with pytest.raises(MessageIllegal):
        stored_in_batch(f"{name}\x013".encode(), b"")
    with pytest.raises(MessageIllegal):
        WRITER.batch_suffix(f"{name}\x013")


def test_a_delay_of_zero_is_none() -> None:
    assert not has_level({"DELAY": "0"})


def test_the_half_of_a_transaction_is_noticed() -> None:
    special = WRITER.stored("TRAN_MSG\x01true")[2]
    assert special is not None
    assert is_prepared(special)
    assert not is_prepared({"TRAN_MSG": "false"})


def test_properties_of_a_batch_follow_those_of_each_message() -> None:
    suffix = WRITER.batch_suffix("WAIT\x01true")
    stored, code = stored_in_batch(b"KEYS\x01k\x02TAGS\x01TagA", suffix)
    assert stored == b"KEYS\x01k\x02TAGS\x01TagA\x02WAIT\x01true\x02CLUSTER\x01DefaultCluster"
    assert code == 2598919
    assert stored_in_batch(b"", suffix) == (suffix, 0)
