"""Signed sends are read in one step, and their text is what the client signed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.acl import SIGNATURE, Credentials, Signer, sign, signature, signed, signed_names
from pyromq.protocol.codes import RequestCode as Code
from pyromq.protocol.command import RemotingCommand, decode, request
from pyromq.protocol.headers import to_ext
from pyromq.protocol.headers.send import SendMessageRequestHeaderV2
from pyromq.protocol.headers.signed_send import SignedSendHeader

ACCOUNT = Credentials("shop", "the-long-secret", security_token="token")
I32 = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
HEADERS = st.builds(
    SendMessageRequestHeaderV2,
    producer_group=TEXTS,
    topic=TEXTS,
    default_topic=TEXTS,
    default_topic_queue_nums=I32,
    queue_id=I32,
    sys_flag=I32,
    born_timestamp=st.integers(-(2**63), 2**63 - 1),
    flag=I32,
    properties=st.none() | TEXTS,
    reconsume_times=st.none() | I32,
    unit_mode=st.booleans(),
    max_reconsume_times=st.none() | I32,
    batch=st.booleans(),
    broker_name=st.none() | TEXTS,
)
SEND = {
    "a": "shop", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0",
    "i": "TAGS\x01é", "j": "0", "k": "false", "m": "false",
}  # fmt: skip


def read(command: RemotingCommand) -> RemotingCommand:
    return decode(command.encode()[4:], typed=False)


@given(header=HEADERS, body=st.binary(max_size=50), nonce=st.sampled_from(["", "a.1"]), batch=st.booleans())
def test_the_text_is_what_was_signed(header: SendMessageRequestHeaderV2, body: bytes, nonce: str, batch: bool) -> None:
    code = Code.SEND_BATCH_MESSAGE if batch else Code.SEND_MESSAGE_V2
    sent = signed(request(code, to_ext(header), body), ACCOUNT, nonce, 1_700_000_000_000)
    fields = sent.ext_fields
    command = read(sent)
    ext = command.ext
    assert isinstance(ext, SignedSendHeader)
    assert (command.code, command.ext_fields, command.body) == (code, fields, body)
    assert ext.signed_text() == "".join(fields[name] for name in signed_names(fields))
    assert all(getattr(ext, name) == getattr(header, name) for name in header.__struct_fields__)


def test_fields_that_are_written_in_another_way_are_read_again_as_they_came() -> None:
    fields = SEND | {"k": "0"}
    command = read(signed(request(Code.SEND_MESSAGE_V2, fields, b"x"), ACCOUNT))
    assert isinstance(command.ext, SignedSendHeader)
    assert command.ext.signed_text() != "".join(fields[name] for name in signed_names(fields))
    command.read_plainly()
    kept = command.ext_fields
    assert {name: kept[name] for name in fields} == fields
    assert kept[SIGNATURE] == sign({name: kept[name] for name in kept if name != SIGNATURE}, b"x", ACCOUNT.secret_key)
    assert command.header(SendMessageRequestHeaderV2).unit_mode is False


def test_a_header_with_other_fields_is_kept_whole() -> None:
    command = read(signed(request(Code.SEND_MESSAGE_V2, SEND | {"newer": "field"}), ACCOUNT))
    assert isinstance(command.ext, dict)
    assert command.ext["newer"] == "field"
    command.read_plainly()
    assert command.ext["newer"] == "field"


def test_a_send_without_an_account_is_read_as_text() -> None:
    assert read(request(Code.SEND_MESSAGE_V2, SEND)).ext == SEND


def test_it_is_encoded_whole() -> None:
    command = read(signed(request(Code.SEND_MESSAGE_V2, SEND, b"x"), ACCOUNT, "a.1", 1))
    assert read(command).ext == command.ext


@given(text=st.binary(max_size=200), body=st.binary(max_size=200), secret=TEXTS | st.just("long" * 40))
def test_a_signer_makes_the_same_signatures(text: bytes, body: bytes, secret: str) -> None:
    assert Signer(secret).signature(text, body) == signature(text + body, secret.encode())
