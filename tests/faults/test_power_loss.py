"""What a power cut may take is taken out of a history; all else that is gone is lost."""

from __future__ import annotations

import pytest

from tests.faults.history import check
from tests.faults.journal import (
    AnyEvent,
    Attempted,
    Committed,
    Delivered,
    Drained,
    Finished,
    Formed,
    PowerFailed,
    Recalled,
    Stored,
)
from tests.faults.test_history import QUEUE, RETRY, Scene

WINDOW = 3.5  # the last three events before a cut


def kinds(scene: Scene, *stored: str) -> list[str]:
    """Return what is found when these values are left, at the offsets 0, 1 …"""
    left: list[AnyEvent] = [
        Stored(at=scene.now + 1, node=node, queue=QUEUE, offset=offset, value=value)
        for node in ("one", "two")
        for offset, value in enumerate(stored)
    ]
    return [finding.kind for finding in check([*scene.events, *left, Drained(group="g", at=scene.now + 2)])]


def cut(scene: Scene) -> Scene:
    return scene.add(PowerFailed(window=WINDOW))


def test_what_was_acknowledged_in_the_window_may_be_gone() -> None:
    scene = Scene().send("a", 0).handle("a", 0).send("b", 1)
    assert kinds(cut(scene), "a") == []


def test_what_was_acknowledged_before_the_window_is_lost() -> None:
    scene = Scene().send("a", 0).send("b", 1).handle("a", 0)
    scene.now += 5
    assert kinds(cut(scene), "a") == ["lost"]


def test_an_offset_may_name_another_message_after_the_window_is_gone() -> None:
    scene = Scene().send("a", 0).deliver("a", 0).finish("a", 0)
    assert kinds(cut(scene).send("b", 0).handle("b", 0), "b") == []


def test_an_offset_of_before_the_window_names_one_message_for_ever() -> None:
    scene = Scene().send("a", 0).handle("a", 0)
    scene.now += 5
    assert "two values" in kinds(cut(scene).send("b", 0).handle("b", 0), "b")


def test_what_comes_to_an_offset_that_was_consumed_before_may_be_passed_over() -> None:
    scene = Scene().send("a", 0).handle("a", 0)
    assert kinds(cut(scene).send("b", 0).send("c", 1).handle("c", 1), "b", "c") == []
    scene = Scene().send("a", 0).handle("a", 0)
    assert kinds(cut(scene).send("b", 0).handle("b", 0).send("c", 1), "b", "c") == ["lost"]


def test_what_a_consumer_had_in_its_hands_may_come_after_the_cut() -> None:
    scene = Scene().add(Attempted(value="a", topic="orders"))
    assert kinds(cut(scene).send("b", 0).handle("a", 0).handle("b", 0), "b") == []


def test_what_is_left_of_the_window_has_to_be_delivered() -> None:
    assert kinds(cut(Scene().send("a", 0)), "a") == ["lost"]


@pytest.mark.parametrize("at", [1, 8])
def test_a_retry_may_be_gone_with_the_window(at: int) -> None:
    """The message itself is older: its copy for the next try was written in the window, or was not."""
    scene = Scene(limit=2).send("a", 0).deliver("a", 0)
    scene.now += at
    scene.finish("a", 0, "failed")
    scene.now += 9 - at
    assert kinds(cut(scene), "a") == ([] if at == 8 else ["lost"])


def test_a_commit_in_the_window_does_not_pass_what_comes_to_its_offsets_later() -> None:
    scene = Scene().send("a", 0).handle("a", 0)
    events: list[AnyEvent] = [Committed(at=scene.now, group="g", queue=QUEUE, offset=1)]
    scene.events += events
    assert kinds(cut(scene).send("b", 0).handle("b", 0), "b") == []


def test_a_cancellation_in_the_window_may_be_forgotten() -> None:
    scene = Scene().send("a", 0, due=1.0)
    scene.now += 9
    scene.add(Recalled(value="a"))
    assert kinds(cut(scene).handle("a", 0), "a") == []


def test_a_delivery_in_a_place_that_is_gone_is_not_a_second_copy() -> None:
    scene = Scene().send("a", 0, due=1.0)
    formed = [event for event in scene.events if isinstance(event, Formed)]
    assert formed
    scene.now += 9
    scene.events.append(Delivered(at=scene.now, group="g", queue=QUEUE, offset=5, value="a"))
    scene.events.append(Finished(at=scene.now, group="g", queue=RETRY, offset=5, value="a"))
    assert kinds(cut(scene).handle("a", 0), "a") == []
