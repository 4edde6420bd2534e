"""The raw requests of the load generator are those that a broker with accounts accepts."""

from __future__ import annotations

import pytest

from pyromq.cli.bench.load_slots import PullSlot, SendSlot, SignedPullSlot, SignedSendSlot, Slot
from pyromq.protocol.acl import ACCESS_KEY, SIGNATURE, Credentials, signed
from pyromq.protocol.command import RemotingCommand, decode

ACCOUNT = Credentials("bench-account", "a-secret-of-some-length")
SEND = (3, "orders", 2, b"x" * 10, "0123456789abcdef", "group", "tag")
PULL = (3, "orders", 2, 100, 200, 32, "group")


@pytest.mark.parametrize("slot", [SignedSendSlot(ACCOUNT, *SEND), SignedPullSlot(ACCOUNT, *PULL)])
def test_the_signature_is_that_of_every_client(slot: Slot) -> None:
    slot.renumber(5)
    for _ in range(2):
        request = decode(slot.next_request()[4:], typed=False)
        fields = request.ext_fields
        proof = fields.pop(SIGNATURE)
        assert fields.pop(ACCESS_KEY) == ACCOUNT.access_key
        again = signed(RemotingCommand(request.code, ext=fields, body=request.body), ACCOUNT)
        assert again.ext_fields[SIGNATURE] == proof


@pytest.mark.parametrize(
    ("plain", "with_account"),
    [(SendSlot(*SEND), SignedSendSlot(ACCOUNT, *SEND)), (PullSlot(*PULL), SignedPullSlot(ACCOUNT, *PULL))],
)
def test_an_account_changes_nothing_else(plain: Slot, with_account: Slot) -> None:
    without, request = (decode(slot.next_request()[4:], typed=False) for slot in (plain, with_account))
    fields = {name: value for name, value in request.ext_fields.items() if name not in (ACCESS_KEY, SIGNATURE)}
    assert fields.keys() == without.ext_fields.keys()
    assert (request.code, request.body, request.opaque) == (without.code, without.body, without.opaque)
