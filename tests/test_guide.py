"""The programs, tests and commands of docs/guide.md work, against a real broker."""

from __future__ import annotations

import asyncio
import inspect
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyromq import App
from pyromq.client.portal import Portal
from pyromq.testing import LocalCluster, wait_until
from tests.cli.conftest import pyromq_here

GUIDE = (Path(__file__).parent.parent / "docs" / "guide.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
LINES = "\n".join(re.findall(r"^```sh\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)).splitlines()
COMMANDS = [words[1:] for line in LINES if (words := shlex.split(line, comments=True)) and words[0] == "pyromq"]
SERVICES = ("up", "run")  # they run until they are stopped; tests of their own start them


def run_program(text: str, names: dict[str, Any]) -> None:
    """Run a block of the page and the tests that it defines."""
    known = set(names)
    exec(compile(text, "docs/guide.md", "exec", dont_inherit=True), names)
    for name in names.keys() - known:
        if name.startswith("test_"):
            run_function(names[name])


def run_function(function: Callable[[], Any]) -> None:
    if inspect.iscoroutinefunction(function):
        asyncio.run(function())
    else:
        function()


def run_commands(*verbs: str) -> None:
    """Run the commands of the page whose first word is one of these."""
    for words in COMMANDS:
        if words[0] in verbs:
            done = pyromq_here(*words)
            assert done.returncode == 0, (words, done.stderr)
            assert done.stdout, words


@contextmanager
def running(app: App, namesrv: str) -> Iterator[None]:
    """Run the App of the page as `pyromq run` would, on a thread."""
    app.use_cluster(namesrv)
    portal = Portal.shared()
    portal.call(app.__aenter__())
    try:
        yield
    finally:
        portal.call(app.__aexit__(None, None, None))


def test_the_chapters_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)  # chapter 7 has a database there
    names: dict[str, Any] = {"__name__": "shop"}
    with LocalCluster() as cluster:
        monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv)
        run_commands("send", "tail")
        for program in PROGRAMS:
            run_program(program.replace("127.0.0.1:9876", cluster.namesrv), names)
        run_function(names["relay"])
        assert "cancelled: True" in capsys.readouterr().out
        with running(names["app"], cluster.namesrv):
            printed = ""

            def billed() -> bool:
                nonlocal printed
                printed += capsys.readouterr().out
                return "billed o-0 990" in printed and "billed o-1 1250" in printed

            wait_until(billed)
            wait_until(lambda: names["seen"] == ["created", "paid", "shipped"])
            assert pyromq_here("send", "payments", '{"id": "o-3", "cents": -5}').returncode == 0
            wait_until(lambda: "a negative price" in pyromq_here("dlq", "show", "cashier").stdout)
            run_commands(*({words[0] for words in COMMANDS} - {*SERVICES, "send", "tail"}))


def test_there_are_ten_chapters_and_the_first_consumer_has_less_than_ten_lines() -> None:
    assert [int(number) for number in re.findall(r"^## (\d+)\. ", GUIDE, re.MULTILINE)] == [*range(1, 11)]
    first = next(program for program in PROGRAMS if "@app.on" in program)
    assert len([line for line in first.splitlines() if line.strip()]) < 10
