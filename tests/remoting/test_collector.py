"""The garbage collector of a server process."""

from __future__ import annotations

import subprocess
import sys


def run(program: str) -> list[str]:
    """Run a program in a process of its own; return the words that it prints."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_what_a_full_collection_leaves_is_not_looked_at_again() -> None:
    program = """
import gc
from pyromq.remoting.collector import settle_memory
settle_memory()
first = gc.get_freeze_count()
kept = [[] for _ in range(20_000)]
gc.collect()
second = gc.get_freeze_count()
gc.collect()
print(second - first >= 20_000, len(gc.get_objects()) < 20_000)
"""
    assert run(program) == ["True", "True"]


def test_frozen_objects_that_become_garbage_do_not_stay_for_ever() -> None:
    """Cycles that were alive during a full collection are found once the process has grown a lot."""
    program = """
import gc, weakref
from pyromq.remoting import collector
collector._MUCH = 200_000
collector.settle_memory()

class Node:
    pass

def cycles(count):
    made = [Node() for _ in range(count)]
    for node in made:
        node.me = node
    return made

kept = cycles(1_000)
watched = [weakref.ref(node) for node in kept]
gc.collect()
kept = None
gc.collect()
print(any(ref() is not None for ref in watched))
grown = cycles(700_000)
for _ in range(4):
    gc.collect()
print(any(ref() is not None for ref in watched))
"""
    assert run(program) == ["True", "False"]


def test_a_full_collection_comes_before_there_is_much_to_look_at() -> None:
    program = """
import gc
started = [[] for _ in range(300_000)]
from pyromq.remoting.collector import settle_memory
settle_memory()
most = 0

def note(phase, info):
    global most
    if phase == "start" and info["generation"] == 2:
        most = max(most, len(gc.get_objects()))

gc.callbacks.insert(0, note)
kept = []
for _ in range(200_000):
    kept.append([])
print(0 < most < 60_000)
"""
    assert run(program) == ["True"]


def test_growth_alone_does_not_have_everything_looked_at() -> None:
    """A look at a million objects takes 200 ms, and only to count the frozen ones takes 50."""
    program = """
import gc
from pyromq.remoting import collector
gc.get_freeze_count = None
collector.settle_memory()
most = 0

def note(phase, info):
    global most
    if phase == "start":
        most = max(most, len(gc.get_objects()))

gc.callbacks.insert(0, note)
kept = [[] for _ in range(800_000)]
print(0 < most < 60_000)
"""
    assert run(program) == ["True"]
