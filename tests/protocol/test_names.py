from __future__ import annotations

import pytest

from pyromq.errors import LocalProtocolError
from pyromq.protocol import names
from pyromq.protocol.names import (
    check_broker,
    check_group,
    check_topic,
    is_system_topic,
    with_namespace,
    without_namespace,
)


@pytest.mark.parametrize("name", ["orders", "%RETRY%group", "a|b", "A-b_9", "x" * 127])
def test_legal_topics_pass(name: str) -> None:
    check_topic(name)


@pytest.mark.parametrize("name", ["", " ", "a b", "a.b", "a/b", "..", "orders\n", "größe", "订单", "x" * 128, "a\x00b"])
def test_illegal_topics_are_refused(name: str) -> None:
    with pytest.raises(LocalProtocolError):
        check_topic(name)


def test_the_text_of_a_refusal_says_what_is_wrong() -> None:
    with pytest.raises(LocalProtocolError, match="topic name is blank"):
        check_topic("")
    with pytest.raises(LocalProtocolError, match="128 characters long, the limit is 127"):
        check_topic("x" * 128)
    with pytest.raises(LocalProtocolError, match=r"group name 'a\.b' has characters other than"):
        check_group("a.b")


@pytest.mark.parametrize("name", ["broker-a", "north@a", "node-1.shop.example"])
def test_a_broker_may_bear_its_machine_room_or_its_host(name: str) -> None:
    check_broker(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "x" * 128])
def test_what_could_be_no_directory_is_no_broker(name: str) -> None:
    with pytest.raises(LocalProtocolError):
        check_broker(name)


def test_groups_may_be_longer_than_topics() -> None:
    check_group("g" * 255)
    with pytest.raises(LocalProtocolError):
        check_group("g" * 256)


def test_retry_dead_letter_and_reply_topics_are_derived_from_their_owner() -> None:
    assert names.retry_topic("g") == "%RETRY%g"
    assert names.dlq_topic("g") == "%DLQ%g"
    assert names.reply_topic("DefaultCluster") == "DefaultCluster_REPLY_TOPIC"


@pytest.mark.parametrize("topic", ["TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_anything"])
def test_system_topics_are_recognised(topic: str) -> None:
    assert is_system_topic(topic)


@pytest.mark.parametrize("topic", ["orders", "%RETRY%g", "tbw102", "RMQ_SYS_MINE"])
def test_other_topics_are_not_system_topics(topic: str) -> None:
    assert not is_system_topic(topic)


@pytest.mark.parametrize(
    ("name", "inside"),
    [("orders", "ns%orders"), ("%RETRY%g", "%RETRY%ns%g"), ("%DLQ%g", "%DLQ%ns%g"), ("ns%orders", "ns%orders")],
)
def test_a_namespace_goes_behind_the_retry_prefix_and_only_once(name: str, inside: str) -> None:
    assert with_namespace(name, "ns") == inside
    assert without_namespace(inside, "ns") == name.replace("ns%", "")


@pytest.mark.parametrize("name", ["TBW102", "rmq_sys_x", "CID_RMQ_SYS_TRANS", ""])
def test_system_names_stay_outside_of_namespaces(name: str) -> None:
    assert with_namespace(name, "ns") == name


def test_without_a_namespace_names_stay_as_they_are() -> None:
    assert with_namespace("orders", None) == "orders"
    assert without_namespace("ns%orders", None) == "ns%orders"
