"""The quick verification of signatures agrees with the plain one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyromq.access import signatures
from pyromq.access.signatures import Verifier
from pyromq.protocol.acl import SIGNATURE, sign

TEXTS = st.text(max_size=20)
NAMES = st.one_of(st.sampled_from(["AccessKey", "topic", "a", "b", "é", "\U0001f600", "\uffff"]), TEXTS)


@given(fields=st.dictionaries(NAMES, TEXTS, max_size=8), body=st.binary(max_size=100), secret=st.text(max_size=100))
def test_it_accepts_what_the_plain_way_signs_and_nothing_else(fields: dict[str, str], body: bytes, secret: str) -> None:
    fields.pop(SIGNATURE, None)
    try:
        good = sign(fields, body, secret)
    except UnicodeEncodeError:
        assert not Verifier("x").is_signed({**fields, SIGNATURE: "x"}, 10, body)
        return
    verifier = Verifier(secret)
    assert verifier.is_signed({**fields, SIGNATURE: good}, 10, body)
    assert not verifier.is_signed({**fields, SIGNATURE: good}, 10, body + b"x")
    assert not verifier.is_signed({**fields, SIGNATURE: good[:-1]}, 10, body)
    assert not verifier.is_signed({**fields, SIGNATURE: good + "é"}, 10, body)
    assert not verifier.is_signed(fields, 10, body)
    assert not Verifier(secret + "x").is_signed({**fields, SIGNATURE: good}, 10, body)


def test_names_that_strangers_make_up_are_not_all_remembered() -> None:
    verifier = Verifier("secret")
    for number in range(signatures.MOST_ORDERS + 50):
        fields = {"AccessKey": "a", f"name-{number}": "b"}
        assert verifier.is_signed({**fields, SIGNATURE: sign(fields, b"", "secret")}, 10, b"")
    assert len(signatures._orders) <= signatures.MOST_ORDERS
