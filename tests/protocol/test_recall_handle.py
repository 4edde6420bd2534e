from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import MalformedHeader
from pyromq.protocol.recall_handle import RecallHandle, decode_handle, encode_handle

words = st.text(st.characters(exclude_characters=" ", exclude_categories=["Cs"]))


def test_a_handle_is_written_as_rocketmq_5_does() -> None:
    handle = RecallHandle("topic", "broker-0", "1707111111111", "messageId")
    assert encode_handle(handle) == "djEgdG9waWMgYnJva2VyLTAgMTcwNzExMTExMTExMSBtZXNzYWdlSWQ="


@given(st.builds(RecallHandle, words, words, words, words))
def test_every_handle_is_read_back(handle: RecallHandle) -> None:
    assert decode_handle(encode_handle(handle)) == handle


@pytest.mark.parametrize("text", ["", "?", "djEg", "djIgYSBiIGMgZA==", "é", "AAAA"])
def test_what_is_no_handle_is_refused(text: str) -> None:
    with pytest.raises(MalformedHeader):
        decode_handle(text)
