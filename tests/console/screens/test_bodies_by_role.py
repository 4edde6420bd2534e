"""Who sees what of bodies: by every path that could show one, for every role, with masked fields."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest

from pyromq import DeadLetter, Message, MessageExt, Producer, PushConsumer
from pyromq.console.login.console_file import MaskingEntry
from pyromq.console.login.roles import UserRole
from pyromq.testing import LocalCluster, eventually
from tests.console.site import ROLES, ConsoleSite, Visitor, users_file

TOPIC, GROUP = "by-role", "by-role-group"
WORD, CARD = "strawberry", "4111-1111-2222"
BODY = {"fruit": WORD, "card": CARD, "total": 7}


@pytest.fixture
async def site(console_cluster: LocalCluster, tmp_path: Path) -> AsyncIterator[ConsoleSite]:
    """A console whose topic has one message that became a dead letter."""
    users_file(tmp_path / "console.yml", masking=(MaskingEntry(TOPIC, ("card",)),))
    async with ConsoleSite.open(console_cluster.namesrv, tmp_path, login=True) as opened:
        if TOPIC not in await opened.admin.topics.names():
            await _fail_once(console_cluster, opened)
        yield opened


async def _fail_once(cluster: LocalCluster, site: ConsoleSite) -> None:
    async def give_up(message: MessageExt) -> None:
        raise DeadLetter("unknown fruit")

    async with Producer("by-role-producer", cluster.namesrv) as producer:
        await producer.send(Message(topic=TOPIC, body=json.dumps(BODY).encode(), keys=["k-1"]))
    async with PushConsumer(GROUP, cluster.namesrv, {TOPIC: "*"}, give_up, start_from="earliest"):

        async def is_dead() -> bool:
            return f"%DLQ%{GROUP}" in await site.admin.topics.names()

        await eventually(is_dead)


async def pages(visitor: Visitor, site: ConsoleSite) -> dict[str, str]:
    """Return everything that could show the body, by path."""
    (message,) = [found async for found in site.admin.messages.find(TOPIC)]
    one = f"/messages/{TOPIC}/{message.message_id}"
    letter = f"/dead-letters/{GROUP}/{message.message_id}"
    dead = f"/messages/{quote(f'%DLQ%{GROUP}', safe='')}/{message.message_id}"
    paths = [f"/messages?topic={TOPIC}", f"/dead-letters/{GROUP}", f"/dead-letters/{GROUP}/export", f"{one}/body"]
    paths += [f"{path}?view={view}" for path in (one, letter, dead) for view in ("tree", "text", "hex")]
    return {path: (await visitor.get(path)).text for path in paths}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.word)
async def test_a_role_sees_of_a_body_what_it_may_and_never_a_masked_field(role: UserRole, site: ConsoleSite) -> None:
    async with site.visitor(role) as visitor:
        found = await pages(visitor, site)
    hex_word, hex_card = WORD.encode().hex(" "), CARD.encode().hex(" ")
    for path, text in found.items():
        assert CARD not in text, path
        assert hex_card[:11] not in text, path
        if role is UserRole.VIEWER_WITHOUT_BODIES:
            assert WORD not in text, path
            assert hex_word[:11] not in text, path
    if role >= UserRole.VIEWER:
        shown = [path for path, text in found.items() if WORD in text]
        assert set(shown) == set(found), "all others are shown"


@pytest.mark.parametrize(
    ("query", "roles_that_find_it"),
    [
        (f"where=body.fruit = '{WORD}'", (UserRole.VIEWER, UserRole.OPERATOR, UserRole.ADMIN)),
        (f"contains={WORD}", (UserRole.VIEWER, UserRole.OPERATOR, UserRole.ADMIN)),
        (f"where=body.card = '{CARD}'", ()),
        (f"contains={CARD}", ()),
        ("where=body.total > 0", (UserRole.VIEWER, UserRole.OPERATOR, UserRole.ADMIN)),
    ],
)
async def test_searches_tell_no_more_than_pages(
    query: str, roles_that_find_it: tuple[UserRole, ...], site: ConsoleSite
) -> None:
    for role in (UserRole.VIEWER_WITHOUT_BODIES, UserRole.VIEWER, UserRole.ADMIN):
        async with site.visitor(role) as visitor:
            text = (await visitor.get(f"/messages?topic={TOPIC}&{query}")).text
            assert ("1 found" in text) == (role in roles_that_find_it), (role, query)
            letters = await visitor.get(f"/dead-letters/{GROUP}/export?{query.replace('contains', 'cause')}")
            if query.startswith("where"):
                assert bool(letters.text) == (role in roles_that_find_it), (role, query)


async def test_a_wrong_condition_says_what_is_wrong_beside_the_form(site: ConsoleSite) -> None:
    async with site.visitor(UserRole.VIEWER) as visitor:
        for path in (f"/messages?topic={TOPIC}&where=total >", f"/dead-letters/{GROUP}?where=total >"):
            found = await visitor.get(path)
            assert found.status_code == 422
            assert "toast bad" in found.text
        assert (await visitor.get("/messages?topic=nothing-of-this-name")).status_code == 422


async def test_a_spark_search_of_masked_bodies_is_refused(site: ConsoleSite) -> None:
    async with site.visitor(UserRole.ADMIN) as visitor:
        answer = await visitor.post("/messages/spark", {"topic": TOPIC, "where": "body.card is not null"})
        assert answer.status_code == 403
        assert "masked" in answer.text
