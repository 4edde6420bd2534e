"""The client where there is no fcntl, no uvloop and no fork, and where loops take no signal handlers: as on Windows."""

from __future__ import annotations

import subprocess
import sys

from pyromq.testing import LocalCluster

PROGRAM = """
import asyncio, os, sys

for name in ("fcntl", "uvloop"):
    sys.modules[name] = None
del os.fork
del os.register_at_fork

def refuse(self, *arguments):
    raise NotImplementedError

asyncio.SelectorEventLoop.add_signal_handler = refuse
asyncio.unix_events._UnixSelectorEventLoop.add_signal_handler = refuse

import pyromq

for name in pyromq.__all__:
    getattr(pyromq, name)

import pyromq.admin, pyromq.codecs
from pyromq import App, MessageExt, Producer, PushConsumer, blocking
from pyromq.app.running.serving import serve

namesrv = sys.argv[1]
app = App("shop", namesrv)
got = []

@app.on("orders", start_from="earliest")
def bill(order: dict, message: MessageExt) -> None:
    got.append(order["id"])
    if len(got) == 2:
        os.kill(os.getpid(), 15)  # the App finishes and leaves

async def main() -> None:
    async with Producer("p", namesrv) as producer:
        await producer.send("orders", {"id": 1})
    await serve(app, lambda line: None)

with blocking.Producer("q", namesrv) as producer:
    producer.send_soon("orders", {"id": 2}).result()
asyncio.run(main())
print(sorted(got))
"""


def test_the_client_works_without_what_windows_lacks() -> None:
    with LocalCluster() as cluster:
        command = [sys.executable, "-c", PROGRAM, cluster.namesrv]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[1, 2]"
