"""The short form of the fuzzers: what once broke a decoder, and a moment of mutations for each."""

from __future__ import annotations

import pytest

from tests.faults.fuzz.__main__ import Fuzzer
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
