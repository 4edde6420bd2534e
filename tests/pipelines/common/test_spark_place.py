from __future__ import annotations

import pytest

from pyromq.pipelines.common.spark_place import SparkPlace

HERE, CLUSTER, REMOTE = SparkPlace("local[2]"), SparkPlace("spark://10.0.0.1:7077"), SparkPlace(remote="sc://10.0.0.1")


@pytest.mark.parametrize(
    ("place", "path", "local"),
    [
        (SparkPlace(), "/data/archive", "/data/archive"),
        (HERE, "archive", "archive"),
        (HERE, "file:///data/my%20archive", "/data/my archive"),
        (HERE, "s3a://bucket/archive", None),
        (CLUSTER, "/data/archive", None),  # perhaps a path of HDFS
        (CLUSTER, "file:///data/archive", "/data/archive"),
        (REMOTE, "/data/archive", None),
        (REMOTE, "file:///data/archive", None),
    ],
)
def test_a_path_is_looked_at_only_where_it_surely_means_this_machine(
    place: SparkPlace, path: str, local: str | None
) -> None:
    assert place.local_path(path) == local


def test_over_connect_the_driver_is_elsewhere() -> None:
    assert [place.has_driver_here for place in (HERE, CLUSTER, REMOTE)] == [True, True, False]
