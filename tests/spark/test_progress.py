from __future__ import annotations

import json

from pyromq.spark.progress import QueueLag, lag


def test_progress_becomes_lag_of_each_queue() -> None:
    end, latest = ({"orders": {"broker-a": {"0": 5, "1": offset}}} for offset in (7, 9))
    source = {"description": "…", "endOffset": json.dumps(end), "latestOffset": json.dumps(latest)}
    kafka = {"endOffset": '{"topic": {"0": 1}}', "latestOffset": None}
    expected = [QueueLag("orders", "broker-a", 0, 5, 5), QueueLag("orders", "broker-a", 1, 7, 9)]
    assert lag({"sources": [kafka, source]}) == expected
    assert lag(json.dumps({"sources": [{"endOffset": end, "latestOffset": latest}]})) == expected
    assert [queue.messages for queue in expected] == [0, 2]
    assert lag(None) == lag({"sources": [{"endOffset": None, "latestOffset": None}]}) == []
