from __future__ import annotations

import os
import re

import pytest

from pyromq.client.net.address import local_address, new_client_id, parse_addresses
from pyromq.errors import ClientError


def test_a_list_of_name_servers_is_split_at_semicolons() -> None:
    assert parse_addresses("a:1;b:2") == ("a:1", "b:2")
    assert parse_addresses(" a:1 ; b:2 ;") == ("a:1", "b:2")
    assert parse_addresses(["a:1", "b:2", "a:1"]) == ("a:1", "b:2")


def test_a_url_counts_as_its_host_and_port() -> None:
    assert parse_addresses("http://name-server:9876") == ("name-server:9876",)


@pytest.mark.parametrize("text", ["", " ; ", "localhost", "localhost:", ":9876", "localhost:port", "localhost:70000"])
def test_what_is_no_address_is_named_in_the_error(text: str) -> None:
    with pytest.raises(ClientError, match="host:port"):
        parse_addresses(text)


@pytest.mark.parametrize("text", ["a:1,b:2", "a:1, b:2", "a:1 b:2", "a:1,b:2;c:3"])
def test_other_separators_are_refused_with_the_right_one(text: str) -> None:
    with pytest.raises(ClientError, match="separate several by ';'"):
        parse_addresses(text)


def test_client_ids_hold_address_and_process_and_never_repeat() -> None:
    ids = {new_client_id() for _ in range(100)}
    assert len(ids) == 100
    for client_id in ids:
        assert re.fullmatch(rf"{re.escape(local_address())}@{os.getpid()}#\d+", client_id)


def test_an_instance_name_replaces_the_generated_part() -> None:
    assert new_client_id("billing-1") == f"{local_address()}@billing-1"
