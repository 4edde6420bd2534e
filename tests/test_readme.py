"""The README's examples work, and those of docs/app.md."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyromq import Message, blocking
from pyromq.testing import LocalCluster

ROOT = Path(__file__).parent.parent


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


README = python_blocks("README.md")
APP_PAGE = python_blocks("docs/app.md")
PROGRAMS = [block for block in (*README, *APP_PAGE) if "asyncio.run" in block]


def test_the_ten_lines_send_and_receive() -> None:
    code = PROGRAMS[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    with LocalCluster() as cluster:
        code = code.replace("127.0.0.1:9876", cluster.namesrv).replace("message.body)", "message.body); return")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == """('o-2',) b'{"id":"o-2","cents":990}'\n"""


@pytest.mark.parametrize("code", PROGRAMS, ids=["poll", "listen"])
def test_ctrl_c_ends_a_program_without_a_traceback(code: str) -> None:
    with LocalCluster() as cluster:
        with blocking.Producer("shop", cluster.namesrv) as producer:
            producer.send(Message(topic="orders", body=b"zero", tags="created", keys=["o-0"]))
        code = code.replace("127.0.0.1:9876", cluster.namesrv).replace("delivery", "delivery-0")
        command = [sys.executable, "-u", "-c", code]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline()  # it has received a message
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("blocks", [README, APP_PAGE], ids=["readme", "app"])
def test_an_app_of_a_page_passes_its_own_tests(blocks: list[str]) -> None:
    names: dict[str, Any] = {"__name__": "shop"}
    for block in blocks:
        if block not in PROGRAMS and "local_session" not in block:
            exec(compile(block, "page", "exec", dont_inherit=True), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        test()


@pytest.mark.parametrize("blocks", [README, APP_PAGE], ids=["readme", "app"])
def test_the_first_typed_consumer_has_less_than_ten_lines(blocks: list[str]) -> None:
    first = next(block for block in blocks if "@app.on" in block)
    assert len([line for line in first.splitlines() if line.strip()]) < 10


@pytest.mark.parametrize("block", README)
def test_every_block_is_python(block: str) -> None:
    compile(block, "README.md", "exec")
