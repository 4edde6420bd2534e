"""A separate driver, for tests that kill it: streams a topic into Parquet files until it is stopped.

stream_to_parquet.py NAMESRV TOPIC DIRECTORY STARTING_OFFSETS MAX_OFFSETS_PER_TRIGGER
"""

from __future__ import annotations

import sys

from pyromq.spark.session import local_session


def main(namesrv: str, topic: str, directory: str, starting_offsets: str, limit: str) -> None:
    spark = local_session("killed", "local[2]", fast_checkpoints=True)
    messages = (
        spark.readStream.format("pyromq")
        .option("namesrv", namesrv)
        .option("subscribe", topic)
        .option("startingOffsets", starting_offsets)
        .option("maxOffsetsPerTrigger", limit)
        .load()
    )
    query = (
        messages.writeStream.format("parquet")
        .option("path", f"{directory}/rows")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
