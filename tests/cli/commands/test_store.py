"""`pyromq store` as a person uses it: real processes on real directories."""

from __future__ import annotations

import json
from pathlib import Path
from zlib import crc32

from tests.cli.conftest import one_line_error, pyromq, pyromq_here
from tests.store.check.test_verify import fill, flip, flip_body
from tests.store.helpers import log_files, message, queue_files, small_store


def test_verify_says_that_all_is_well(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    done = pyromq_here("store", "verify", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith("no problems")
    assert "60 messages" in done.stdout


def test_verify_names_a_problem_in_one_line_and_exits_with_1(tmp_path: Path) -> None:
    fill(tmp_path)
    path = queue_files(tmp_path)[0]
    flip(path, 45)
    done = pyromq_here("store", "verify", str(tmp_path))
    assert done.returncode == 1
    first, last = done.stdout.splitlines()
    assert first.startswith(f"problem: {path.relative_to(tmp_path)} at 40: entry 2 says")
    assert last.endswith("1 problem")
    assert done.stderr == ""


def test_verify_gives_json_lines(tmp_path: Path) -> None:
    fill(tmp_path)
    flip_body(log_files(tmp_path)[0])
    done = pyromq_here("store", "verify", str(tmp_path), "--json")
    assert done.returncode == 1
    (finding,) = map(json.loads, done.stdout.splitlines())
    assert (finding["severity"], finding["kind"]) == ("problem", "record")
    assert finding["file"] == f"commitlog/{log_files(tmp_path)[0].name}"
    assert finding["offset"] > 0


def test_verify_says_what_it_cannot_judge_in_a_live_directory(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        store.put(message())
        store.commit()
        done = pyromq_here("store", "verify", str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert "a broker has this directory open" in done.stdout


def test_a_directory_without_a_store_is_one_line(tmp_path: Path) -> None:
    for verb in ("verify", "inspect", "repair", "serve"):
        assert "no store in" in one_line_error(pyromq_here("store", verb, str(tmp_path)))


def test_inspect_shows_what_is_there(tmp_path: Path) -> None:
    fill(tmp_path)
    done = pyromq_here("store", "inspect", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "orders" in done.stdout


def test_inspect_gives_json_lines(tmp_path: Path) -> None:
    fill(tmp_path)
    done = pyromq_here("store", "inspect", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    values = [json.loads(line) for line in done.stdout.splitlines()]
    (store,) = [value for value in values if value["kind"] == "store"]
    assert (store["messages"], store["topics"], store["configured_topics"]) == (60, 1, 1)
    assert (store["is_live"], store["is_clean"]) == (False, True)
    assert store["last_store_timestamp"].endswith("Z")
    queues = [value for value in values if value["kind"] == "queue"]
    assert [(queue["queue_id"], queue["min_offset"], queue["max_offset"]) for queue in queues] == [
        (0, 0, 20), (1, 0, 20), (2, 0, 20),
    ]  # fmt: skip
    offsets = [value for value in values if value["kind"] == "offset"]
    assert [(one["group"], one["queue_id"], one["committed_offset"], one["lag"]) for one in offsets] == [
        ("g", 0, 3, 17), ("g", 1, 4, 16),
    ]  # fmt: skip


def test_inspect_counts_what_waits(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        for topic in ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"):
            for _ in range(5):
                store.put(message(topic=topic, queue_id=0))
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "delayOffset.json").write_bytes(b'{"offsetTable":{1:3}}')
    (tmp_path / "config" / "consumerOffset.json").write_bytes(
        b'{"offsetTable":{"RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS":{0:1}}}'
    )
    done = pyromq_here("store", "inspect", str(tmp_path), "--json")
    store_line = json.loads(done.stdout.splitlines()[0])
    assert store_line["pending_delayed"] == {"1": 2}
    assert store_line["pending_half_messages"] == 4


def test_repair_shows_asks_mends_and_checks_again(tmp_path: Path) -> None:
    fill(tmp_path)
    path = queue_files(tmp_path)[0]
    sound = path.read_bytes()
    flip(path, 45)
    damaged = path.read_bytes()
    shown = pyromq("store", "repair", str(tmp_path), "--dry-run")
    assert shown.returncode == 0
    assert "to do: build queues and index anew from 60 messages" in shown.stdout
    asked = pyromq("store", "repair", str(tmp_path), text="n\n")
    assert asked.returncode == 1
    assert path.read_bytes() == damaged
    done = pyromq("store", "repair", str(tmp_path), "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].endswith("no problems")
    assert path.read_bytes() == sound
    assert pyromq("store", "repair", str(tmp_path)).stdout.endswith("nothing to repair\n")


def test_repair_leaves_a_live_directory_alone(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        store.put(message())
        store.commit()
        assert "stop it before a repair" in one_line_error(pyromq_here("store", "repair", str(tmp_path), "--yes"))


def test_backup_copies_a_directory_once(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    arguments = ("store", "backup", str(tmp_path), str(tmp_path / "copy"))
    planned = pyromq_here(*arguments, "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert planned.stdout.startswith("would copy ")
    assert not (tmp_path / "copy").exists()
    done = pyromq_here(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f"from {tmp_path / 'store'} to {tmp_path / 'copy'}\n")
    assert pyromq_here("store", "verify", str(tmp_path / "copy")).returncode == 0
    assert "copy already: name a directory that is new" in one_line_error(pyromq_here(*arguments))
    missing = pyromq_here("store", "backup", str(tmp_path / "nowhere"), str(tmp_path / "other"))
    assert "no store in" in one_line_error(missing)


def test_a_file_of_a_later_release_is_one_line_with_its_name(tmp_path: Path) -> None:
    fill(tmp_path)
    text = b'{"1":"10.0.0.2:10911"}\n2 '
    (tmp_path / "pyromq.slaves").write_bytes(text + b"%08x\n" % crc32(text))
    for verb in ("verify", "repair", "backup"):
        target = [str(tmp_path / "copy")] if verb == "backup" else []
        line = one_line_error(pyromq_here("store", verb, str(tmp_path), *target))
        assert f"{tmp_path}/pyromq.slaves has format 2, and this release knows format 1" in line
