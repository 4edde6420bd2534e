from __future__ import annotations

import subprocess
import sys

from pyspark.sql.datasource import DataSource

import pyspark_pyromq

SCRIPT = """
import sys
import pyspark.sql.datasource
before = set(sys.modules)
import pyspark_pyromq
loaded = "pyromq.client.net.calls.broker_api" in sys.modules
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}), loaded)
"""


def test_spark_finds_the_format_under_its_name() -> None:
    assert issubclass(pyspark_pyromq.DefaultSource, DataSource)
    assert pyspark_pyromq.DefaultSource.name() == "pyromq"


def test_the_module_that_spark_loads_in_every_planning_process_is_light() -> None:
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    *loaded, has_client = result.stdout.split()
    assert has_client == "False"
    assert not {"numpy", "pyarrow", "pandas", "uvloop"} & set(loaded)
