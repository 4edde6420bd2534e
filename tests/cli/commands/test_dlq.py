"""`pyromq dlq` as an operator uses it, against a real cluster with dead letters of a real consumer."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from pyromq import DeadLetter, Message, MessageExt, blocking
from pyromq.testing import LocalCluster
from tests.cli.conftest import one_line_error, pyromq, pyromq_here

COUNT = 6
Done = CompletedProcess[str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """A cluster in which the group `billing` gave up six orders, three paid and three created."""
    with LocalCluster() as running:
        with blocking.Producer("shop", running.namesrv) as producer:
            for number in range(COUNT):
                producer.send(order(number, "paid" if number % 2 else "created"), order_key="all")
        give_up(running, "billing", "orders", COUNT)
        yield running


def order(number: int, tag: str, topic: str = "orders") -> Message:
    body = b"order %d" % number
    return Message(topic=topic, body=body, tags=tag, keys=[f"o-{number}"], properties={"n": str(number)})


def give_up(cluster: LocalCluster, group: str, topic: str, count: int) -> None:
    """Let a consumer give up the next messages of a topic, one after the other."""
    given_up = threading.Semaphore(0)

    def listen(message: MessageExt) -> None:
        given_up.release()
        raise DeadLetter(f"no account for {message.tags}")

    with blocking.PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest", concurrency=1):
        for _ in range(count):
            assert given_up.acquire(timeout=30)


def command(cluster: LocalCluster, *arguments: str, text: str = "") -> Done:
    return pyromq_here("dlq", *arguments, "-n", cluster.namesrv, text=text)


def dlq(cluster: LocalCluster, *arguments: str, text: str = "") -> list[str]:
    """Run a verb, check that it succeeds, and return the lines it printed."""
    done = command(cluster, *arguments, text=text)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def follow(cluster: LocalCluster, topic: str, count: int) -> list[MessageExt]:
    """Return the first messages of a topic."""
    messages: list[MessageExt] = []
    with blocking.LitePullConsumer("look", cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
        while len(messages) < count:
            messages += consumer.poll(timeout=5)
    return messages


def test_list_shows_who_has_how_many_and_until_when(cluster: LocalCluster) -> None:
    (found,) = (line for line in map(json.loads, dlq(cluster, "list", "--json")) if line["group"] == "billing")
    assert (found["group"], found["topic"], found["messages"]) == ("billing", "%DLQ%billing", COUNT)
    assert found["oldest"].endswith("Z")
    assert found["oldest"] < found["expires"]
    assert found["expires_soon"] is False
    assert any("billing" in line and "6" in line for line in dlq(cluster, "list"))


def test_show_tells_the_cause_of_each(cluster: LocalCluster) -> None:
    found = [json.loads(line) for line in dlq(cluster, "show", "billing", "--json")]
    assert [letter["body"] for letter in found] == [f"order {n}" for n in range(COUNT)]
    first = found[0]
    assert re.fullmatch(r"DeadLetter: no account for created \(test_dlq.py:\d+ in listen\)", first["cause"])
    assert (first["origin_topic"], first["group"], first["resends"]) == ("orders", "billing", 0)
    assert (first["tags"], first["keys"], first["reconsume_times"]) == ("created", ["o-0"], 1)
    (line,) = dlq(cluster, "show", "billing", "--id", first["message_id"])
    assert line.startswith(f"{first['message_id']} orders after 0 retries: DeadLetter: no account for created")


def test_show_picks_by_condition_and_cause(cluster: LocalCluster) -> None:
    paid = dlq(cluster, "show", "billing", "--json", "--where", "TAGS = 'paid' AND n > 1")
    assert [json.loads(line)["body"] for line in paid] == ["order 3", "order 5"]
    created = dlq(cluster, "show", "billing", "--json", "--cause", "for created", "--count", "2")
    assert [json.loads(line)["body"] for line in created] == ["order 0", "order 2"]


def test_conditions_reach_into_json_bodies(cluster: LocalCluster) -> None:
    with blocking.Producer("shop", cluster.namesrv) as producer:
        for number in range(4):
            producer.send(Message(topic="invoices", body=json.dumps({"amount": {"net": number + 0.5}}).encode()))
    give_up(cluster, "books", "invoices", 4)
    where = ("--where", "body.amount.net > 2 AND TAGS IS NULL")
    shown = [json.loads(line)["body"] for line in dlq(cluster, "show", "books", "--json", *where)]
    assert sorted(shown) == ['{"amount": {"net": 2.5}}', '{"amount": {"net": 3.5}}']
    exported = [json.loads(line)["body"] for line in dlq(cluster, "export", "books", "-", *where)]
    assert exported == shown
    assert len(dlq(cluster, "resend", "books", *where, "--dry-run")) == 2
    error = one_line_error(command(cluster, "show", "books", "--where", "body.amount.net > "))
    assert "expected a property, a literal or `(` at character 19, found the end" in error


def test_export_writes_json_lines(cluster: LocalCluster, tmp_path: Path) -> None:
    assert dlq(cluster, "export", "billing", str(tmp_path / "letters.jsonl")) == []
    lines = (tmp_path / "letters.jsonl").read_text().splitlines()
    assert [json.loads(line)["body"] for line in lines] == [f"order {n}" for n in range(COUNT)]
    assert dlq(cluster, "export", "billing", "-", "--where", "n = 4") == lines[4:5]


@pytest.mark.parametrize("name", ["letters.jsonl", "letters.parquet"])
def test_an_export_that_fails_leaves_an_older_file_as_it_was(cluster: LocalCluster, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("older")
    one_line_error(command(cluster, "export", "nobody", str(path)))
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {name: "older"}


def test_an_export_may_go_to_a_device(cluster: LocalCluster) -> None:
    assert command(cluster, "export", "billing", "/dev/null").returncode == 0


def test_export_writes_parquet_with_the_columns_of_spark(cluster: LocalCluster, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    dlq(cluster, "export", "billing", str(tmp_path / "letters.parquet"))
    rows = parquet.read_table(tmp_path / "letters.parquet").to_pylist()
    assert [row["body"] for row in rows] == [b"order %d" % n for n in range(COUNT)]
    assert rows[0]["topic"] == "%DLQ%billing"
    assert (rows[0]["tags"], rows[0]["keys"], rows[0]["origin_topic"]) == ("created", ["o-0"], "orders")
    assert dict(rows[0]["properties"])["n"] == "0"
    assert rows[0]["store_timestamp"].tzinfo is not None


def test_resend_makes_new_messages_that_keep_their_history(cluster: LocalCluster) -> None:
    letters = [json.loads(line) for line in dlq(cluster, "show", "billing", "--json")]
    sent = dlq(cluster, "resend", "billing", "--where", "TAGS = 'paid'", "--to", "repaired", "--yes", "--rate", "1000")
    assert len(sent) == 3
    messages = follow(cluster, "repaired", 3)
    assert [message.body for message in messages] == [b"order 1", b"order 3", b"order 5"], "in order, by their key"
    first, letter = messages[0], letters[1]
    assert (first.tags, first.keys) == ("paid", ("o-1",))
    assert first.message_id != letter["message_id"]
    assert sent[0] == f"SEND_OK {letter['message_id']} -> repaired {first.message_id}"
    assert first.reconsume_times == 0
    history = {name: value for name, value in first.properties.items() if name.startswith("PYROMQ_")}
    assert history == {
        "PYROMQ_ORIGIN_TOPIC": "orders",
        "PYROMQ_ORIGIN_GROUP": "billing",
        "PYROMQ_ORIGIN_MESSAGE_ID": letter["message_id"],
        "PYROMQ_RESENDS": "1",
        "PYROMQ_CAUSE": letter["cause"],
    }
    others = first.properties.keys() - history.keys()
    assert others == {"TAGS", "KEYS", "n", "__SHARDINGKEY", "UNIQ_KEY", "CLUSTER"}, "nothing that brokers wrote"


def test_a_letter_that_is_sent_again_and_fails_again_remembers_its_first_id(cluster: LocalCluster) -> None:
    with blocking.Producer("shop", cluster.namesrv) as producer:
        producer.send(order(1, "paid", "bills"))
    give_up(cluster, "audit", "bills", 1)
    (first,) = [json.loads(line) for line in dlq(cluster, "show", "audit", "--json")]
    dlq(cluster, "resend", "audit", "--id", first["message_id"])
    give_up(cluster, "audit", "bills", 1)
    letters = [json.loads(line) for line in dlq(cluster, "show", "audit", "--json")]
    assert [letter["resends"] for letter in letters] == [0, 1]
    assert letters[1]["message_id"] != first["message_id"]
    assert letters[1]["origin_message_id"] == first["message_id"]
    assert len(dlq(cluster, "show", "audit", "--id", first["message_id"])) == 2, "both are found by it"


def test_a_dry_run_sends_nothing(cluster: LocalCluster) -> None:
    lines = dlq(cluster, "resend", "billing", "--all", "--to", "nowhere", "--dry-run")
    assert len(lines) == COUNT
    assert all(line.endswith("-> nowhere") for line in lines)
    server = cluster.brokers[0].server
    assert server is not None
    assert server.topics.get("nowhere") is None


def test_many_are_sent_only_after_asking(cluster: LocalCluster) -> None:
    no = command(cluster, "resend", "billing", "--all", "--to", "asked", text="n\n")
    assert no.returncode == 1
    assert "Send 6 dead letters of billing to asked?" in no.stderr
    assert len(dlq(cluster, "resend", "billing", "--all", "--to", "asked", text="y\n")) == COUNT


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "nobody"), "the group 'nobody' has no dead letters"),
        (("show", "billing", "--where", "TAGS = "), "SQL92: expected a property"),
        (("show", "billing", "--where", "n = 1 n = 2"), "is an AND missing?"),
        (("show", "billing", "--id", "ABC"), "no dead letter with the id ABC"),
        (("resend", "billing", "--id", "ABC"), "no such dead letters"),
        (("export", "billing", "/nonexistent/x.jsonl"), "No such file"),
    ],
)
def test_a_mistake_is_said_in_one_line(cluster: LocalCluster, arguments: tuple[str, ...], said: str) -> None:
    assert said in one_line_error(command(cluster, *arguments))


@pytest.mark.parametrize("arguments", [(), ("--all", "--id", "A")])
def test_resend_wants_to_know_which(cluster: LocalCluster, arguments: tuple[str, ...]) -> None:
    assert command(cluster, "resend", "billing", *arguments).returncode == 2


def test_the_verbs_are_there_for_whoever_asks() -> None:
    done = pyromq("dlq", "--help")
    assert done.returncode == 0
    assert all(verb in done.stdout for verb in ("list", "show", "export", "resend"))


def test_without_pyarrow_parquet_is_refused_in_one_line(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = command(cluster, "export", "billing", str(tmp_path / "x.parquet"))
    assert "pip install pyarrow" in one_line_error(done)
