"""A member of a group in a separate process; it records each handled message, its place and the time."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

from pyromq import MessageExt, PushConsumer


async def main(namesrv: str, topic: str, group: str, path: str) -> None:
    handled = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    async def handle(message: MessageExt) -> None:
        await asyncio.sleep(0.001)
        line = b"%b %d %f\n" % (message.body, message.queue_id, time.monotonic())
        os.write(handled, line)  # not buffered: what is written was handled, even if we are killed

    async with PushConsumer(group, namesrv, {topic: "*"}, handle, start_from="earliest") as consumer:
        running = asyncio.ensure_future(consumer.run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        print("ready", flush=True)
        await asyncio.wait([running])
    os.close(handled)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))
