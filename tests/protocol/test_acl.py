"""Signatures: known ones, and all others against the rule written down a second time, as plainly as can be."""

from __future__ import annotations

import base64
import hashlib
import hmac
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import ClientError, LocalProtocolError
from pyromq.protocol.acl import Credentials, name_account, sign, signed
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand, decode, request
from pyromq.protocol.headers.pull import QueryMessageRequestHeader

SHOP = Credentials("shop-app", "shop-secret")
texts = st.text(alphabet=st.characters(codec="utf-8"), max_size=20)
fields_of_requests = st.dictionaries(texts, texts, max_size=8)


def plainly_signed(fields: dict[str, str], body: bytes, secret: str) -> str:
    names = sorted(fields.keys() - {"Signature", "_UNIQUE_KEY_QUERY"}, key=lambda name: name.encode("utf-16-be"))
    content = b"".join(fields[name].encode() for name in names) + body
    return base64.b64encode(hmac.new(secret.encode(), content, hashlib.sha1).digest()).decode()


def test_the_signatures_are_those_of_apaches_client() -> None:
    offset = {"topic": "TopicTest", "queueId": "0", "AccessKey": "RocketMQ"}
    assert sign(offset, b"", "12345678") == "81TVNXFMLTfMm08aNFX+r9iZBrY="
    assert sign({"AccessKey": "RocketMQ"}, b'{"clientID":"x"}', "12345678") == "SC9kzFTBVLXXAqxyRji08hY5LG4="


@given(fields=fields_of_requests, body=st.binary(max_size=50), secret=texts)
def test_a_signature_covers_all_values_in_the_order_of_their_names_and_the_body(
    fields: dict[str, str], body: bytes, secret: str
) -> None:
    assert sign(fields, body, secret) == plainly_signed(fields, body, secret)
    backwards = dict(reversed(fields.items()))
    assert sign(backwards, body, secret) == sign(fields, body, secret)


def test_names_are_in_the_order_of_javas_characters() -> None:
    high, low = "\U00010000", "\uffff"  # two characters in Java, of which the first is the smaller one
    assert sign({low: "b", high: "a"}, b"", "secret") == plainly_signed({"1": "a", "2": "b"}, b"", "secret")


@given(value=texts)
def test_the_signature_itself_and_the_mark_of_a_query_do_not_count(value: str) -> None:
    fields = {"AccessKey": "shop-app", "topic": "orders"}
    more = {**fields, "Signature": value, "_UNIQUE_KEY_QUERY": value}
    assert sign(more, b"body", "secret") == sign(fields, b"body", "secret")


def test_a_signed_request_says_who_sent_it_and_the_one_it_was_made_of_stays_as_it_is() -> None:
    header = QueryMessageRequestHeader(topic="orders", key="k", max_num=1, begin_timestamp=0, end_timestamp=9)
    plain = request(RequestCode.QUERY_MESSAGE, header, b"body")
    once, twice = (signed(plain, SHOP) for _ in range(2))
    assert plain.ext is header
    fields = decode(once.encode()[4:], typed=False).ext_fields
    assert fields.pop("Signature") == plainly_signed(fields, b"body", "shop-secret")
    assert fields.pop("AccessKey") == "shop-app"
    assert fields == plain.ext_fields
    assert (once, once.body) == (twice, b"body")
    assert signed(once, SHOP) == once


def test_a_request_without_fields_is_signed_too() -> None:
    fields = signed(request(RequestCode.HEART_BEAT, None, b"{}"), SHOP).ext_fields
    assert fields == {"AccessKey": "shop-app", "Signature": plainly_signed({"a": "shop-app"}, b"{}", "shop-secret")}


def test_a_token_is_sent_and_signed() -> None:
    fields = signed(request(RequestCode.HEART_BEAT), Credentials("shop-app", "shop-secret", "token")).ext_fields
    assert fields["SecurityToken"] == "token"
    assert fields["Signature"] == plainly_signed({"1": "shop-app", "2": "token"}, b"", "shop-secret")


def test_text_that_cannot_be_encoded_is_refused_before_it_is_sent() -> None:
    with pytest.raises(LocalProtocolError, match="cannot be encoded"):
        signed(request(RequestCode.HEART_BEAT, {"topic": "\ud800"}), SHOP)


def test_credentials_keep_their_secrets_to_themselves() -> None:
    credentials = Credentials("shop-app", "s3cret", "t0ken")
    for text in (repr(credentials), str(credentials), f"{credentials}", f"{[credentials]}"):
        assert "shop-app" in text
        assert "s3cret" not in text
        assert "t0ken" not in text
    assert pickle.loads(pickle.dumps(credentials)) == credentials


@pytest.mark.parametrize("keys", [("", "secret"), ("shop-app", "")])
def test_half_an_account_is_none(keys: tuple[str, str]) -> None:
    with pytest.raises(ClientError, match="an access key and a secret key"):
        Credentials(*keys)


APACHE = "org.apache.rocketmq.acl"
FRAME = f"{APACHE}.plain.PlainPermissionManager.validate(PlainPermissionManager.java:691)"


@pytest.mark.parametrize("reason", ["Check signature failed for accessKey=shop-app", "No default permission, for a:b"])
def test_a_refusal_names_the_account_and_what_the_broker_said(reason: str) -> None:
    answer = RemotingCommand(1, remark=f"{APACHE}.common.AclException: {reason}, {FRAME}")
    name_account(answer, SHOP)
    assert answer.remark == f"access denied to account 'shop-app': {reason}"


def test_a_refusal_of_a_client_without_an_account_says_so() -> None:
    answer = RemotingCommand(1, remark=f"{APACHE}.common.AclException: No accessKey is configured, {FRAME}")
    name_account(answer, None)
    assert answer.remark == "access denied to a client without credentials: No accessKey is configured"


@pytest.mark.parametrize("remark", [None, "", "java.lang.NullPointerException, x.Y.z(Y.java:1)"])
def test_other_failures_are_left_alone(remark: str | None) -> None:
    answer = RemotingCommand(1, remark=remark)
    name_account(answer, SHOP)
    assert answer.remark == remark
