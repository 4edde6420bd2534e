"""The templates of hot answers against the general encoder: the same bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.acl import Credentials, signed
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, SerializeType, decode, request, response
from pyromq.protocol.frame_templates import SendFrames, SignedSendFrames, pull_answer_head, send_answer
from pyromq.protocol.headers import encode_json
from pyromq.protocol.headers.pull import PullMessageResponseHeader
from pyromq.protocol.headers.send import SendMessageRequestHeaderV2, SendMessageResponseHeader

I64 = st.integers(-(2**63), 2**63 - 1)
I32 = st.integers(-(2**31), 2**31 - 1)
REMARKS = st.none() | st.sampled_from(["FOUND", "OFFSET_TOO_SMALL"]) | st.text(st.characters(exclude_categories=["Cs"]))
ID = "0A00000500002A9F0000000000001234"


@st.composite
def requests(draw: st.DrawFn) -> RemotingCommand:
    """A request with any opaque, in either form."""
    command = request(310, serialize=draw(st.sampled_from(SerializeType)))
    command.opaque = draw(I32)
    return command


@given(requests(), st.sampled_from([0, 10, 11, 12]), I32, I64, st.sampled_from([ID, f"{ID},{ID}"]), REMARKS)
def test_a_send_answer_equals_the_general_encoders(
    question: RemotingCommand, code: int, queue_id: int, queue_offset: int, msg_id: str, remark: str | None
) -> None:
    header = SendMessageResponseHeader(msg_id=msg_id, queue_id=queue_id, queue_offset=queue_offset)
    expected = response(question, code, remark, header).encode()
    assert send_answer(question, code, queue_id, queue_offset, msg_id, remark) == expected


@given(requests(), st.sampled_from([0, 19, 20, 21]), REMARKS, I64, I64, I64, I64, st.binary(max_size=50))
def test_a_pull_answer_equals_the_general_encoders(
    question: RemotingCommand,
    code: int,
    remark: str | None,
    suggest: int,
    next_offset: int,
    min_offset: int,
    max_offset: int,
    body: bytes,
) -> None:
    header = PullMessageResponseHeader(
        suggest_which_broker_id=suggest, next_begin_offset=next_offset, min_offset=min_offset, max_offset=max_offset
    )
    head = pull_answer_head(question, code, remark, suggest, next_offset, min_offset, max_offset, len(body))
    assert head + body == response(question, code, remark, header, body).encode()


@pytest.mark.parametrize("serialize", SerializeType)
def test_a_send_answer_has_what_a_java_client_needs(serialize: SerializeType) -> None:
    answer = decode(send_answer(request(310, serialize=serialize), ResponseCode.SUCCESS, 3, 77, ID)[4:])
    assert answer.ext_fields == {
        "msgId": ID,
        "queueId": "3",
        "queueOffset": "77",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }


names = st.text(alphabet=st.characters(codec="utf-8"), max_size=20)
keys = st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=20)


@given(
    group=names,
    topic=names,
    topic_queues=st.integers(0, 1000),
    opaque=st.integers(0, 2**31 - 1),
    queue_id=st.integers(-100, 1000),
    born_timestamp_ms=st.integers(0, 2**62),
    properties=st.text(alphabet=st.characters(codec="utf-8")),
    body=st.binary(max_size=100),
    access_key=keys,
    secret_key=keys,
    security_token=st.none() | keys,
)
def test_the_bytes_are_those_of_the_general_encoder(
    group: str,
    topic: str,
    topic_queues: int,
    opaque: int,
    queue_id: int,
    born_timestamp_ms: int,
    properties: str,
    body: bytes,
    access_key: str,
    secret_key: str,
    security_token: str | None,
) -> None:
    header = SendMessageRequestHeaderV2(
        producer_group=group,
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=topic_queues,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=born_timestamp_ms,
        flag=0,
        properties=properties,
        reconsume_times=0,
    )
    general = request(RequestCode.SEND_MESSAGE_V2, header, body)
    general.opaque = opaque
    own = opaque, queue_id, born_timestamp_ms, encode_json(properties), body
    assert SendFrames(group, topic, "TBW102", topic_queues).frame(*own) == general.encode()
    account = Credentials(access_key, secret_key, security_token)
    frames = SignedSendFrames(group, topic, "TBW102", topic_queues, account)
    assert frames.frame(*own, b"f00.7") == signed(general, account, "f00.7", born_timestamp_ms).encode()
