from __future__ import annotations

import socket

import pytest

from pyromq.errors import ConfigError
from pyromq.spark.launch.addresses import check_reachable


@pytest.mark.parametrize("address", ["", "local[2]", "local-cluster[2,1,1024]", "yarn", "k8s://https://10.0.0.1:6443"])
def test_other_addresses_are_left_to_spark(address: str) -> None:
    check_reachable(address)


@pytest.mark.parametrize("form", ["spark://{}", "spark://127.0.0.1:1,{}", "sc://{}", "sc://{}/;user_id=x;token=y"])
def test_one_that_listens_will_do(form: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_reachable(form.format(f"127.0.0.1:{server.getsockname()[1]}"))


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (
            "sc://127.0.0.1:1/;token=secret",
            "no Spark Connect server answers at 127.0.0.1:1: connection refused. Is",
        ),
        (
            "spark://127.0.0.1:1,127.0.0.1:2",
            "no Spark master answers at 127.0.0.1:1: connection refused; 127.0.0.1:2",
        ),
        ("sc://127.0.0.1:x", "no Spark Connect server answers at 127.0.0.1:x: port could not be cast"),
    ],
)
def test_where_nobody_listens_the_line_says_so_at_once(address: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_reachable(address)
    assert str(caught.value).startswith(text)
