"""Message ids, and the other numbers that must differ between processes that have everything else in common."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

from pyromq.client.net.address import new_client_id
from pyromq.client.net.message_ids import message_ids
from pyromq.client.send.producer import Producer

NOW_MS = 1_700_000_000_000
COUNT = 200


def test_replicas_that_seed_random_alike_make_different_ids() -> None:
    made: set[str] = set()
    for _ in range(4):
        random.seed(42)
        ids = message_ids()
        made |= {ids.next(NOW_MS) for _ in range(COUNT)}
    assert len(made) == 4 * COUNT


def test_replicas_that_seed_random_alike_have_different_client_ids() -> None:
    program = (
        "import random; random.seed(42)\n"
        "from pyromq.client.net.address import new_client_id\n"
        "print(new_client_id().partition('#')[2])"
    )
    command = [sys.executable, "-c", program]
    first, second = (subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert first
    assert first != second


async def test_a_client_draws_nothing_from_the_program_s_own_random_numbers() -> None:
    random.seed(42)
    expected = [random.random() for _ in range(3)]
    random.seed(42)
    async with Producer("p", "127.0.0.1:1;127.0.0.1:2"):
        new_client_id()
    assert [random.random() for _ in range(3)] == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forked_children_make_ids_of_their_own() -> None:
    ids = message_ids()
    made = [ids.next(NOW_MS)]
    for _ in range(2):  # as a server that makes its producer first and its workers then
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, "".join(ids.next(NOW_MS) for _ in range(COUNT)).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        made += [text[start : start + 32] for start in range(0, len(text), 32)]
    made += [ids.next(NOW_MS) for _ in range(COUNT)]
    assert len(made) == 3 * COUNT + 1
    assert len(set(made)) == len(made)
