"""Frames from the template against the general encoder, its oracle."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.acl import Credentials, signed
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import request
from pyromq.protocol.headers import encode_json
from pyromq.protocol.headers.send import SendMessageRequestHeaderV2
from pyromq.protocol.send_frames import SendFrames, SignedSendFrames

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
    assert frames.frame(*own) == signed(general, account).encode()
