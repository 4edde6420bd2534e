"""The README's examples work."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq import Message, blocking
from pyromq.testing import LocalCluster

README = (Path(__file__).parent.parent / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


PROGRAMS = [block for block in PYTHON if "asyncio.run" in block]


def test_the_ten_lines_send_and_receive() -> None:
    code = PROGRAMS[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    with LocalCluster() as cluster:
        code = code.replace("127.0.0.1:9876", cluster.namesrv).replace("message.body)", "message.body); return")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("b'one'\n")


@pytest.mark.parametrize("code", PROGRAMS, ids=["poll", "listen"])
def test_ctrl_c_ends_a_program_without_a_traceback(code: str) -> None:
    with LocalCluster() as cluster:
        with blocking.Producer("shop", cluster.namesrv) as producer:
            producer.send(Message(topic="orders", body=b"zero", tags="created", keys=["o-0"]))
        code = code.replace("127.0.0.1:9876", cluster.namesrv).replace("billing", "billing-0")
        command = [sys.executable, "-u", "-c", code]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline()  # it has received a message
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("block", PYTHON)
def test_every_block_is_python(block: str) -> None:
    compile(block, "README.md", "exec")
