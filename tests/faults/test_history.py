"""The history checker finds every planted fault, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyromq.protocol.messages.message import MessageQueue
from tests.faults.history import check
from tests.faults.journal import (
    RAISED,
    SEND_OK,
    Answered,
    AnyEvent,
    Attempted,
    Buried,
    Committed,
    Deleted,
    Delivered,
    Drained,
    Event,
    Finished,
    Follower,
    Formed,
    Journal,
    Moved,
    Recalled,
    Reigned,
    Restarted,
    Stored,
    Struck,
    read_journals,
)

QUEUE = MessageQueue("orders", "broker-a", 0)
RETRY = MessageQueue("%RETRY%g", "broker-a", 0)


class Scene:
    """Events one second apart."""

    def __init__(self, **group: Any) -> None:
        self.events: list[AnyEvent] = []
        self.now = 0.0
        self.add(Formed(group="g", topics=["orders"], **group))

    def add(self, *events: AnyEvent) -> Scene:
        for event in events:
            self.now += 1.0
            fields = {name: getattr(event, name) for name in event.__struct_fields__}
            self.events.append(type(event)(**{**fields, "at": self.now}))
        return self

    def send(self, value: str, offset: int, **attempt: Any) -> Scene:
        """Send a value and get its place as the answer."""
        self.add(Attempted(value=value, topic="orders", **attempt))
        return self.add(Answered(value=value, status=SEND_OK, queue=QUEUE, offset=offset))

    def ask(self, value: str) -> Scene:
        return self.add(Attempted(value=value, topic="orders"))

    def answer(self, value: str, offset: int, node: str, status: str = SEND_OK) -> Scene:
        return self.add(Answered(value=value, status=status, queue=QUEUE, offset=offset, node=node))

    def reign(self, node: str, epoch: int) -> Scene:
        return self.add(Reigned(node=node, epoch=epoch, since=self.now + 0.5))

    def deliver(self, value: str, offset: int, **more: Any) -> Scene:
        return self.add(Delivered(group="g", queue=more.pop("queue", QUEUE), value=value, offset=offset, **more))

    def finish(self, value: str, offset: int, result: Any = "acknowledged", **more: Any) -> Scene:
        queue = more.pop("queue", QUEUE)
        return self.add(Finished(group="g", queue=queue, value=value, offset=offset, result=result, **more))

    def handle(self, value: str, offset: int, result: Any = "acknowledged", **more: Any) -> Scene:
        """Deliver and finish."""
        self.deliver(value, offset, **more)
        more.pop("call", None)
        return self.finish(value, offset, result, **more)

    def commit(self, offset: int, epoch: int = 0) -> Scene:
        node = "one" if epoch == 1 else "two" if epoch else ""
        return self.add(Committed(group="g", queue=QUEUE, offset=offset, epoch=epoch, node=node))

    def move(self, offset: int) -> Scene:
        return self.add(Moved(group="g", queue=QUEUE, offset=offset, since=self.now + 0.5))

    def delete(self) -> Scene:
        return self.add(Deleted(topic="orders", since=self.now + 0.5))

    def drain(self) -> Scene:
        return self.add(Drained(group="g"))

    @property
    def kinds(self) -> list[str]:
        return [finding.kind for finding in check(self.events)]


def sent(*values: str, **group: Any) -> Scene:
    """Return a scene in which these values lie at the offsets 0, 1 …"""
    scene = Scene(**group)
    for offset, value in enumerate(values):
        scene.send(value, offset)
    return scene


# --- lost


def test_a_history_without_faults_has_no_findings() -> None:
    assert sent("a", "b").handle("a", 0).handle("b", 1).commit(2).drain().kinds == []


def test_an_acknowledged_message_that_never_came_is_lost() -> None:
    assert sent("a", "b").handle("a", 0).drain().kinds == ["lost"]


def test_a_message_that_was_not_acknowledged_may_be_missing() -> None:
    scene = Scene().add(Attempted(value="a", topic="orders"), Answered(value="a", status=RAISED))
    scene.add(Attempted(value="b", topic="orders"))
    assert scene.drain().kinds == []


def test_a_message_that_failed_and_never_came_again_is_lost() -> None:
    scene = sent("a").handle("a", 0, "failed").drain()
    assert scene.kinds == ["lost"]
    assert "delivered 1 times and never finished" in str(check(scene.events)[0])


def test_a_message_whose_listener_never_ended_is_lost() -> None:
    assert sent("a").deliver("a", 0).drain().kinds == ["lost"]


def test_a_dead_letter_is_not_lost() -> None:
    assert sent("a", limit=0).handle("a", 0, "failed").add(Buried(group="g", value="a")).drain().kinds == []


def test_a_failed_message_of_a_broadcasting_member_is_dropped_and_not_lost() -> None:
    assert sent("a", retries=False).handle("a", 0, "failed").drain().kinds == []


def test_only_groups_that_drained_must_have_everything() -> None:
    assert sent("a").kinds == []


def test_what_a_reset_skipped_is_not_lost() -> None:
    assert sent("a", "b").move(1).handle("b", 1).commit(2).drain().kinds == []


def test_a_reset_to_an_earlier_offset_excuses_no_loss() -> None:
    assert sent("a", "b").move(0).handle("a", 0).drain().kinds == ["lost"]


def test_what_was_deleted_with_its_topic_is_not_lost_but_what_came_later_is() -> None:
    assert sent("a").delete().send("b", 0).handle("b", 0).drain().kinds == []
    assert sent("a").delete().send("b", 0).drain().kinds == ["lost"]


# --- invented, doubled, early


def test_a_message_that_was_never_sent_is_invented() -> None:
    assert sent("a").handle("a", 0).handle("ghost", 1).drain().kinds == ["invented"]


def test_a_message_in_another_topic_is_invented() -> None:
    other = MessageQueue("refunds", "broker-a", 0)
    assert sent("a").handle("a", 0).handle("a", 0, queue=other).drain().kinds == ["invented"]


def test_a_message_in_the_retry_topic_of_its_group_is_not_invented() -> None:
    assert sent("a").handle("a", 0, "failed").handle("a", 0, queue=RETRY, times=1).drain().kinds == []


def test_a_rolled_back_message_that_comes_is_invented() -> None:
    scene = Scene().add(Attempted(value="a", topic="orders", how="transaction", rolled_back=True))
    scene.add(Answered(value="a", status=SEND_OK))
    assert scene.drain().kinds == []
    assert scene.handle("a", 0).kinds == ["invented"]


def test_a_cancelled_message_that_comes_is_invented() -> None:
    scene = Scene().add(Attempted(value="a", topic="orders", how="timed", due=3.0))
    scene.add(Answered(value="a", status=SEND_OK), Recalled(value="a"))
    assert scene.drain().kinds == []
    assert scene.handle("a", 0).kinds == ["invented"]


def test_a_message_that_was_perhaps_cancelled_may_come_or_not() -> None:
    scene = Scene().add(Attempted(value="a", topic="orders", how="timed", due=3.0))
    scene.add(Answered(value="a", status=SEND_OK), Recalled(value="a", is_sure=False))
    assert scene.drain().kinds == []
    assert scene.handle("a", 0).kinds == []


def test_a_value_at_two_offsets_is_doubled() -> None:
    scene = Scene().add(Attempted(value="a", topic="orders", how="timed"), Answered(value="a", status=SEND_OK))
    assert scene.handle("a", 0).handle("a", 1).drain().kinds == ["doubled"]


def test_a_copy_that_no_group_read_is_doubled_too() -> None:
    assert sent("a").handle("a", 0).add(Stored(queue=QUEUE, offset=1, value="a")).kinds == ["doubled"]


def test_a_sender_that_retries_may_have_stored_a_value_twice() -> None:
    assert Scene().send("a", 0, copies=2).handle("a", 0).handle("a", 1).drain().kinds == []


def test_a_redelivery_is_not_doubled() -> None:
    assert sent("a").deliver("a", 0).handle("a", 0).drain().kinds == []


def test_a_delayed_message_that_comes_before_its_time_is_early() -> None:
    assert Scene().send("a", 0, due=4.5).handle("a", 0).kinds == ["early"]
    assert Scene().send("a", 0, due=3.5).handle("a", 0).kinds == []


# --- places and dead letters


def test_two_values_at_one_offset_are_found() -> None:
    assert sent("a").send("b", 0).handle("b", 0).kinds == ["two values"]


def test_a_recreated_topic_begins_again_at_offset_0() -> None:
    assert sent("a").handle("a", 0).delete().send("b", 0).handle("b", 0).drain().kinds == []


def test_a_send_during_a_deletion_may_belong_to_either_life() -> None:
    scene = sent("a").add(Attempted(value="b", topic="orders")).delete()
    scene.add(Answered(value="b", status=SEND_OK, queue=QUEUE, offset=0))
    assert scene.handle("b", 0).drain().kinds == []


def test_a_dead_letter_that_was_not_tried_often_enough_is_found() -> None:
    scene = sent("a", limit=1).handle("a", 0, "failed").add(Buried(group="g", value="a"))
    assert scene.kinds == ["untried"]
    assert scene.handle("a", 0, "failed", queue=RETRY, times=1).kinds == []


def test_a_message_behind_the_failing_one_of_its_batch_was_not_tried() -> None:
    scene = sent("a", limit=0).handle("a", 0, "untried").add(Buried(group="g", value="a"))
    assert scene.kinds == ["untried"]


def test_a_message_that_its_listener_rejected_needs_no_more_tries() -> None:
    assert sent("a", limit=3).handle("a", 0, "rejected").add(Buried(group="g", value="a")).kinds == []


# --- order


def test_a_message_that_overtakes_an_unfinished_one_is_out_of_order() -> None:
    scene = sent("a", "b", orderly=True).deliver("a", 0).handle("b", 1).finish("a", 0)
    assert scene.kinds == ["out of order"]


def test_a_message_that_overtakes_a_failed_one_is_out_of_order() -> None:
    scene = sent("a", "b", orderly=True, limit=1).handle("a", 0, "failed").handle("b", 1).handle("a", 0, times=1)
    assert scene.kinds == ["out of order"]


def test_a_dead_letter_no_longer_blocks_its_queue() -> None:
    scene = sent("a", "b", orderly=True, limit=0).handle("a", 0, "failed").handle("b", 1)
    assert scene.add(Buried(group="g", value="a")).kinds == []


def test_messages_of_one_batch_come_together() -> None:
    scene = sent("a", "b", "c", orderly=True).deliver("a", 0, call=1).deliver("b", 1, call=1)
    assert scene.finish("a", 0).finish("b", 1, "untried").handle("b", 1, call=2).kinds == []
    assert sent("a", "b", orderly=True).deliver("a", 0, call=3).handle("b", 1, call=4).kinds == ["out of order"]


def test_an_orderly_queue_may_start_again_at_the_committed_offset() -> None:
    scene = sent("a", "b", "c", orderly=True).handle("a", 0).handle("b", 1)
    assert scene.handle("a", 0).handle("b", 1, "failed").handle("c", 2).drain().kinds == []


def test_a_first_delivery_behind_a_later_one_is_out_of_order() -> None:
    assert sent("a", "b").handle("b", 1).handle("a", 0).kinds == ["out of order"]
    assert sent("a", "b", parallel=True).handle("b", 1).handle("a", 0).kinds == []


def test_after_a_reset_messages_that_were_skipped_may_come() -> None:
    assert sent("a", "b", "c").move(2).handle("c", 2).move(0).handle("a", 0).handle("b", 1).kinds == []


def test_a_reader_that_is_alone_gets_nothing_twice() -> None:
    scene = sent("a", "b", alone=True)
    assert scene.handle("a", 0, by="one").handle("b", 1, by="one").handle("a", 0, by="two").kinds == []
    assert scene.handle("b", 1, by="one").kinds == ["out of order"]


def test_two_readers_in_one_are_found_after_a_seek() -> None:
    scene = sent("a", "b", "c", alone=True).handle("a", 0).handle("b", 1).handle("c", 2).move(0)
    assert scene.handle("a", 0).handle("b", 1).kinds == []
    assert scene.handle("a", 0).kinds == ["out of order"]


def test_a_message_may_come_twice_if_it_came_while_the_reader_moved_there() -> None:
    scene = sent("a", "b", alone=True)
    begun = scene.now
    scene.handle("a", 0).handle("b", 1).add(Moved(group="g", queue=QUEUE, offset=0, since=begun))
    assert scene.handle("a", 0).handle("b", 1).kinds == []
    assert scene.handle("a", 0).kinds == ["out of order"]


def test_values_of_a_key_that_come_in_another_order_are_out_of_order() -> None:
    other = QUEUE._replace(queue_id=1)
    scene = Scene(orderly=True).send("a", 0, key="k").add(Attempted(value="b", topic="orders", key="k"))
    scene.add(Answered(value="b", status=SEND_OK, queue=other, offset=0))
    assert scene.handle("b", 0, queue=other).handle("a", 0).kinds == ["out of order"]


def test_what_is_sent_after_an_answer_is_stored_behind_it() -> None:
    assert Scene().send("a", 5).send("b", 4).kinds == ["out of order"]
    assert Scene().send("a", 5, key="k").send("b", 4, key="k").kinds == ["out of order"]
    assert Scene().send("a", 4).send("b", 5).kinds == []


def test_sends_that_were_under_way_together_may_be_stored_in_any_order() -> None:
    assert Scene().ask("a").ask("b").answer("a", 1, "").answer("b", 0, "").kinds == []


# --- brokers of one name


def test_two_masters_that_give_one_offset_to_two_values_are_found() -> None:
    scene = Scene().reign("one", 1).ask("a").answer("a", 0, "one").reign("two", 2).ask("b").answer("b", 0, "two")
    assert "two values" in scene.kinds


def test_a_deposed_master_that_acknowledges_is_found() -> None:
    scene = Scene().reign("one", 1).ask("a").answer("a", 0, "one").reign("two", 2).ask("b").answer("b", 1, "two")
    assert scene.ask("c").answer("c", 2, "one").kinds == ["deposed"]


def test_a_deposed_master_may_store_what_it_does_not_acknowledge() -> None:
    scene = Scene().reign("one", 1).reign("two", 2).ask("b").answer("b", 0, "two")
    assert scene.ask("c").answer("c", 1, "one", "FLUSH_SLAVE_TIMEOUT").kinds == []


def test_a_deposed_master_may_acknowledge_what_it_was_asked_before() -> None:
    scene = Scene().reign("one", 1).ask("c").reign("two", 2).ask("b").answer("b", 1, "two")
    assert scene.answer("c", 0, "one").kinds == []


def test_a_master_that_is_elected_again_may_acknowledge() -> None:
    scene = Scene().reign("one", 1).reign("two", 2).ask("b").answer("b", 0, "two").reign("one", 3)
    assert scene.ask("c").answer("c", 1, "one").kinds == []


def test_a_queue_with_a_gap_is_found() -> None:
    scene = sent("a", "b", "c").add(Stored(queue=QUEUE, offset=0, value="a"))
    assert scene.add(Stored(queue=QUEUE, offset=2, value="c")).kinds == ["gap"]
    assert scene.add(Stored(queue=QUEUE, offset=1, value="b")).kinds == []


def test_brokers_that_have_not_the_same_in_the_end_are_found() -> None:
    scene = sent("a", "b").add(Stored(node="one", queue=QUEUE, offset=0, value="a"))
    scene.add(Stored(node="two", queue=QUEUE, offset=0, value="a"))
    assert scene.kinds == []
    assert scene.add(Stored(node="two", queue=QUEUE, offset=1, value="b")).kinds == ["unlike"]


# --- offsets


def test_an_offset_that_moves_back_is_found() -> None:
    assert sent("a", "b").handle("a", 0).handle("b", 1).commit(2).commit(1).kinds == ["moved back"]


def test_an_operator_may_move_an_offset_back_once() -> None:
    scene = sent("a", "b").handle("a", 0).handle("b", 1).commit(2).move(0)
    assert scene.commit(0).commit(2).kinds == []
    assert scene.commit(1).kinds == ["moved back"]


def test_a_reset_does_not_excuse_an_offset_before_it() -> None:
    scene = sent("a", "b", "c").handle("a", 0).handle("b", 1).handle("c", 2).commit(3).move(2)
    assert scene.commit(1).kinds == ["moved back"]


def test_a_killed_broker_may_have_forgotten_the_last_commits_and_a_stopped_one_not() -> None:
    scene = sent("a").handle("a", 0).commit(1)
    assert sent("a").handle("a", 0).commit(1).add(Restarted(saved=False)).commit(0).kinds == []
    assert scene.add(Restarted()).commit(0).kinds == ["moved back"]


def handled(count: int) -> Scene:
    scene = sent(*map(str, range(count)))
    for offset in range(count):
        scene.handle(str(offset), offset)
    return scene


def test_a_new_master_may_lack_the_commits_of_the_last_second() -> None:
    """Events are a second apart, and what was seen up to half a second before that second counts."""
    scene = handled(4).commit(1, epoch=1).commit(2, epoch=1).commit(3, epoch=1).add(Struck(how="kill", node="one"))
    assert scene.commit(2, epoch=2).kinds == []


def test_a_new_master_that_lacks_older_commits_is_found() -> None:
    scene = handled(4).commit(1, epoch=1).commit(2, epoch=1).commit(3, epoch=1).add(Struck(how="kill", node="one"))
    assert scene.commit(1, epoch=2).kinds == ["moved back"]


def test_a_new_master_need_not_have_what_was_committed_before_a_move() -> None:
    scene = handled(4).commit(2, epoch=1).commit(3, epoch=1).move(0).commit(0, epoch=1).commit(0, epoch=1)
    assert scene.add(Struck(how="kill", node="one")).commit(1, epoch=2).kinds == []


def test_a_blow_to_another_reign_excuses_nothing_in_this_one() -> None:
    scene = handled(4).commit(2, epoch=1).add(Struck(how="kill", node="two")).commit(1, epoch=1)
    assert scene.kinds == ["moved back"]


def test_a_commit_that_passes_an_unhandled_message_is_found() -> None:
    assert sent("a", "b").handle("b", 1).commit(2).kinds == ["ahead"]
    assert sent("a", "b").deliver("a", 0).handle("b", 1).commit(2).finish("a", 0).kinds == ["ahead"]


def test_a_failed_message_was_sent_back_unless_the_group_is_orderly() -> None:
    assert sent("a").handle("a", 0, "failed").commit(1).kinds == []
    assert sent("a", orderly=True).handle("a", 0, "failed").commit(1).kinds == ["ahead"]
    assert sent("a", orderly=True, limit=0).handle("a", 0, "failed").commit(1).kinds == []


def test_a_reset_may_pass_messages() -> None:
    assert sent("a", "b").move(1).commit(1).handle("b", 1).commit(2).kinds == []


# --- journals


def test_a_journal_survives_its_writer_and_half_a_line(tmp_path: Path) -> None:
    first, second = Journal(tmp_path / "one.jsonl", "one"), Journal(tmp_path / "two.jsonl", "two")
    written: list[Event] = [first.write(Attempted, value="ä", topic="orders")]
    written.append(second.write(Delivered, group="g", queue=QUEUE, offset=7, value="ä"))
    written.append(first.write(Answered, value="ä", status=SEND_OK, queue=QUEUE, offset=7))
    first.close()
    second.close()
    with (tmp_path / "two.jsonl").open("ab") as file:
        file.write(b'{"event":"deliv')
    assert read_journals(tmp_path) == written


def test_a_follower_returns_each_event_once(tmp_path: Path) -> None:
    follower, journal = Follower(tmp_path), Journal(tmp_path / "one.jsonl", "one")
    assert list(follower.read()) == []
    drained = journal.write(Drained, group="g")
    assert list(follower.read()) == [drained]
    assert list(follower.read()) == []
    buried = journal.write(Buried, group="g", value="a")
    assert list(follower.read()) == [buried]
    journal.close()


def test_a_finding_is_printed_with_its_proof() -> None:
    text = str(check(sent("a").handle("ghost", 0).events)[0])
    assert text.splitlines()[0] == "invented: ghost was never sent"
    assert '"event":"delivered"' in text


def test_a_long_history_is_judged_in_no_more_than_linear_time() -> None:
    """A rule that looked at all earlier events for each would take hours."""
    scene = sent(*map(str, range(20_000)), orderly=True)
    for number in range(20_000):
        scene.handle(str(number), number).commit(number + 1)
    assert scene.drain().kinds == []
