"""The short form of the fuzzers: what once broke a decoder, a moment of mutations for each, and two conversations."""

from __future__ import annotations

import pytest

from pyromq.broker.tools.broker_admin import BrokerHandlers
from pyromq.protocol.codes import RequestCode, ResponseCode
from tests.faults.fuzz.__main__ import Fuzzer
from tests.faults.fuzz.conversations import talk
from tests.faults.fuzz.decoders import DECODERS


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_survives_mutations(name: str) -> None:
    verdict = Fuzzer(name, seed=7).run(0.15)
    assert verdict.findings == []
    assert verdict.inputs > 20


def test_a_finding_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    def broken(data: bytes) -> None:
        raise KeyError("unexpected")

    monkeypatch.setattr("tests.faults.fuzz.__main__.CORPUS", tmp_path)
    monkeypatch.setitem(DECODERS, "tags", DECODERS["tags"]._replace(run=broken))
    verdict = Fuzzer("tags", seed=7).run(0.01)
    assert len(verdict.findings) == 1
    assert "KeyError" in verdict.findings[0]


@pytest.mark.timeout(300)
def test_servers_survive_conversations() -> None:
    found = talk(seconds=30, seed=7, count=300, most=2)
    assert found.findings == []
    assert found.conversations == 2
    assert found.answers[ResponseCode.SUCCESS] > 100


def test_what_goes_wrong_in_a_conversation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object) -> None:
        raise KeyError("unexpected")

    monkeypatch.setattr(BrokerHandlers, "runtime_info", broken)
    monkeypatch.setattr("tests.faults.fuzz.questions.LIKELY", [RequestCode.GET_BROKER_RUNTIME_INFO])
    found = talk(seconds=0, seed=7, count=20)
    assert "the handler of request code 28 failed" in found.findings[0]
    assert "KeyError" in found.findings[0]
