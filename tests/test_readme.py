"""The README's examples work."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq.testing import LocalCluster

README = (Path(__file__).parent.parent / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_ten_lines_send_and_receive() -> None:
    (code,) = [block for block in PYTHON if "asyncio.run" in block]
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    with LocalCluster() as cluster:
        code = code.replace("127.0.0.1:9876", cluster.namesrv).replace("message.body)", "message.body); return")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("b'one'\n")


@pytest.mark.parametrize("block", PYTHON)
def test_every_block_is_python(block: str) -> None:
    compile(block, "README.md", "exec")
