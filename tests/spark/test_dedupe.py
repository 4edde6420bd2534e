from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyromq.errors import ConfigError
from pyromq.spark import dedupe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_dedupe_names_the_column_that_it_lacks(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="dedupe needs the column 'topic'"):
        dedupe(spark.range(1))
