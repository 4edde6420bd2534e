"""Transcode videos: uploads are sent without waiting for one another, and long work goes on at its own pace.

A video takes 0.2 s here, and minutes elsewhere. Start a broker with `pyromq up`, then:
python examples/transcode.py [NAMESRV]
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta

from msgspec import Struct

from pyromq import App, MessageExt

TOPIC, VIDEOS = "example-uploads", 6
app = App("example-videos")
done = asyncio.Semaphore(0)


class Upload(Struct):
    video: str
    seconds: float


@app.on(
    TOPIC,
    group="example-transcoders",
    start_from="earliest",
    concurrency=2,  # videos at a time in this process
    rate=20,  # and no more begun in a second, whatever arrives
    consume_timeout=timedelta(minutes=15),
)
async def transcode(upload: Upload, message: MessageExt) -> None:
    """Convert a video piece by piece, and ask for more time as long as there is progress."""
    for _ in range(4):
        await asyncio.sleep(upload.seconds / 4)
        message.extend(timedelta(minutes=15))
    print("received", upload.video)
    done.release()


async def main() -> None:
    async with app:
        uploads = [Upload(f"video-{number}", 0.2) for number in range(VIDEOS)]
        results = await asyncio.gather(*(app.producer.send(TOPIC, upload, keys=upload.video) for upload in uploads))
        print("uploaded", len(results), "videos")
        for _ in range(VIDEOS):
            await asyncio.wait_for(done.acquire(), 30)


if __name__ == "__main__":
    app.use_cluster(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
    asyncio.run(main())
