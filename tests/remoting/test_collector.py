"""The memory of a server process."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

ON_GLIBC = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")


def run(program: str, **environment: str) -> list[str]:
    """Run a program in a process of its own; return the words that it prints."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=kept | environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


# 64 answers of ten pages, 50 times: it would be 30,000 page faults if the memory were given back each time.
LARGE_ANSWERS = """
import resource
from pyromq.remoting.collector import keep_memory
keep_memory()

def make_answers(rounds):
    for _ in range(rounds):
        answers = [b"x" * 38_000 for _ in range(64)]

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

make_answers(3)
before = faults()
make_answers(50)
print(faults() - before)
"""


@ON_GLIBC
def test_the_memory_of_large_answers_serves_the_next_ones() -> None:
    (faults,) = run(LARGE_ANSWERS)
    assert int(faults) < 1_000


@ON_GLIBC
def test_an_operator_decides_about_memory() -> None:
    (faults,) = run(LARGE_ANSWERS, MALLOC_MMAP_THRESHOLD_="16384", MALLOC_TRIM_THRESHOLD_="16384", MALLOC_TOP_PAD_="0")
    assert int(faults) > 20_000


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


def test_settling_looks_only_at_what_a_start_has_made() -> None:
    """Clients wait meanwhile: modules, which are most of all objects, were looked at before."""
    program = """
import gc
code = [[] for _ in range(300_000)]
from pyromq.remoting.collector import freeze_code, settle_memory
freeze_code()
started = [[] for _ in range(1_000)]
looked_at = []

def note(phase, info):
    if phase == "start":
        looked_at.append(len(gc.get_objects()))

gc.callbacks.insert(0, note)
settle_memory()
print(1_000 <= looked_at[0] < 10_000, gc.get_freeze_count() > 301_000)
"""
    assert run(program) == ["True", "True"]
