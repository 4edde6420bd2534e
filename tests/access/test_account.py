"""What an account may do."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pyromq.access.account import PUB, SUB, Account, Permission, parse_permission, show_permission

DENY = Permission.DENY
SHOP = Account(
    access_key="shop-app",
    secret_key="a-long-secret-key",
    default_group=SUB,
    topics={"orders": PUB, "orders-*": SUB, "orders-eu-*": PUB | SUB, "*-not": PUB},
    groups={"audit": DENY, "bill-*": SUB},
)


@pytest.mark.parametrize(("text", "permission"), [("DENY", DENY), ("PUB", PUB), ("SUB|PUB", PUB | SUB)])
def test_permissions_are_apaches_texts(text: str, permission: Permission) -> None:
    assert parse_permission(text) == permission
    assert parse_permission(show_permission(permission)) == permission


@pytest.mark.parametrize("text", ["", "pub", "ANY", "PUB,SUB"])
def test_another_text_is_no_permission(text: str) -> None:
    with pytest.raises(ValueError, match="is no permission"):
        parse_permission(text)


@pytest.mark.parametrize(
    ("topic", "permission"),
    [
        ("orders", PUB),
        ("orders-", SUB),
        ("orders-us", SUB),
        ("orders-eu-1", PUB | SUB),  # the longest prefix wins
        ("order", DENY),
        ("orders_", DENY),
        ("", DENY),
    ],
)
def test_a_name_that_ends_in_a_star_is_a_prefix(topic: str, permission: Permission) -> None:
    assert SHOP.on_topic(topic) == permission


def test_the_group_decides_about_its_retry_topic() -> None:
    assert SHOP.on_topic("%RETRY%bill-eu") == SUB
    assert SHOP.on_topic("%RETRY%audit") == DENY
    everything = replace(SHOP, topics={"*": PUB | SUB})
    assert everything.on_topic("%RETRY%audit") == DENY


def test_the_group_decides_who_reads_its_dead_letters() -> None:
    everything = replace(SHOP, default_topic=PUB | SUB, topics={"*": PUB | SUB}, default_group=PUB | SUB)
    assert everything.on_topic("%DLQ%bill-eu") == SUB
    assert everything.on_topic("%DLQ%other") == SUB  # nobody but the broker writes them
    assert everything.on_topic("%DLQ%audit") == DENY
    listed = replace(SHOP, topics={"%DLQ%audit": SUB, "%DLQ%bill-eu": DENY})
    assert listed.on_topic("%DLQ%audit") == SUB
    assert listed.on_topic("%DLQ%bill-eu") == DENY


def test_in_rocketmq_topics_of_dead_letters_are_topics_like_others() -> None:
    everything = replace(SHOP, default_topic=SUB, topics={"orders": DENY})
    assert everything.on_topic_as_apache("%DLQ%audit") == SUB
    assert everything.on_topic_as_apache("orders") == DENY
    assert everything.on_topic_as_apache("%RETRY%audit") == DENY


@pytest.mark.parametrize(
    "topic",
    ["SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC", "DefaultCluster_REPLY_TOPIC"],
)
def test_a_default_or_prefix_does_not_open_the_brokers_own_topics(topic: str) -> None:
    reader = replace(SHOP, default_topic=SUB, topics={"*": SUB})
    assert reader.on_topic(topic) == DENY
    assert replace(reader, topics={topic: SUB}).on_topic(topic) == SUB


def test_no_text_of_an_account_shows_its_secret() -> None:
    assert "long-secret" not in f"{SHOP} {SHOP!r} {[SHOP]}"


def test_an_account_covers_one_with_fewer_rights() -> None:
    assert SHOP.covers(SHOP)
    assert replace(SHOP, topics={**SHOP.topics, "more": PUB}).covers(SHOP)
    assert replace(SHOP, admin=True).covers(SHOP)
    for lesser in (
        replace(SHOP, secret_key="another-long-secret"),
        replace(SHOP, default_group=DENY),
        replace(SHOP, topics={**SHOP.topics, "orders": DENY}),
        replace(SHOP, groups={**SHOP.groups, "any-*": DENY}),
        replace(SHOP, topics={"orders": PUB}),
    ):
        assert not lesser.covers(SHOP)
    assert not SHOP.covers(replace(SHOP, admin=True))
