"""The table of `make torture`."""

from __future__ import annotations

import importlib
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.faults import __main__ as torture

HERE = Path(__file__).parent


def test_every_campaign_of_the_folder_is_a_part() -> None:
    programs = {path.stem for path in HERE.glob("*.py") if "\ndef main() -> int:" in path.read_text()}
    programs |= {path.parent.name for path in HERE.glob("*/__main__.py")}
    modules = {shlex.split(part.long)[0] for part in torture.PARTS}
    assert programs - modules == {"__main__", "history"}


def test_names_of_parts_are_unique() -> None:
    names = [part.name for part in torture.PARTS]
    assert len(set(names)) == len(names)


def main_module(name: str) -> ModuleType:
    """Return what `python -m` runs of a module or a package."""
    module = importlib.import_module(name)
    return importlib.import_module(f"{name}.__main__") if hasattr(module, "__path__") else module


@pytest.mark.parametrize("part", torture.PARTS, ids=lambda part: part.name)
@pytest.mark.parametrize("short", [False, True], ids=["long", "short"])
def test_the_options_of_a_part_are_known_to_its_campaign(
    part: torture.Part, short: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown option would end with 2 before `--help`, which comes last, ends with 0."""
    module, *options = part.command(short=short)[2:]
    monkeypatch.setattr(sys, "argv", ["campaign", *options, "--help"])
    with pytest.raises(SystemExit) as ended:
        main_module(module).main()
    assert ended.value.code == 0, capsys.readouterr().err


def test_an_unknown_part_is_an_error_that_names_the_parts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["make torture", "nonsense"])
    with pytest.raises(SystemExit) as ended:
        torture.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert [part.name for part in torture.PARTS if part.name not in said] == []


def test_a_failed_part_fails_the_run_but_does_not_stop_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Program(torture.Part):
        def command(self, *, short: bool) -> list[str]:
            return [sys.executable, "-c", self.short if short else self.long]

    parts = [Program("bad", "", "exit(3)", "exit(1)"), Program("fine", "", "print('ran')", "print('ran briefly')")]
    monkeypatch.setattr(torture, "PARTS", parts)
    monkeypatch.setattr(sys, "argv", ["make torture", "--short"])
    assert torture.main() == 1
    output = capfd.readouterr().out
    assert "ran briefly" in output
    assert "bad: FAILED (1)" in output
    assert output.endswith("torture: 1 of 2 parts are good FAILED: bad\n")


def test_make_hands_part_and_short_on() -> None:
    def planned(*words: str) -> str:
        command = ["make", "--dry-run", "--old-file", ".venv/.installed", "torture", *words]
        outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        place = HERE.parent.parent
        return subprocess.run(command, cwd=place, env=outside, capture_output=True, text=True, check=True).stdout

    assert planned().split()[1:] == ["-m", "tests.faults"]
    assert planned("PART=kill_loop", "SHORT=1").split()[1:] == ["-m", "tests.faults", "kill_loop", "--short"]
