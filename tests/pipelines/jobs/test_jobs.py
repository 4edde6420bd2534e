"""Jobs: a pipeline in a process of its own, watched through its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyromq import blocking
from pyromq.errors import ClientError, ConfigError
from pyromq.pipelines.jobs import jobs as jobs_module
from pyromq.pipelines.jobs.job_files import JobFiles, JobOrder, JobProcess, JobProgress
from pyromq.pipelines.jobs.jobs import PipelineJobs
from pyromq.testing import LocalCluster, eventually
from tests.pipelines.conftest import make_topic, numbered

pytestmark = pytest.mark.timeout(300)


@pytest.mark.spark
async def test_a_search_runs_in_its_own_process_and_leaves_what_it_found(
    cluster: LocalCluster, producer: blocking.Producer, tmp_path: Path
) -> None:
    make_topic(cluster, "haystack", 4)
    for message in numbered("haystack", range(1, 41)):
        producer.send(message)
    jobs = PipelineJobs(tmp_path / "jobs", cluster.namesrv)
    options = {"topics": "haystack", "where": "body.number > 30 and tags = 'even'", "most": "3"}
    started = jobs.start("find", options, "ann")
    assert (started.state, started.user, started.pipeline) == ("running", "ann", "find")
    another = jobs.start("find", {"topics": "haystack"})
    with pytest.raises(ClientError, match="2 jobs are running"):
        jobs.start("find", options)
    jobs.stop(another.id)
    jobs.stop(another.id)
    await eventually(lambda: jobs.get(another.id).state == "stopped", seconds=60)

    later = PipelineJobs(tmp_path / "jobs", cluster.namesrv)
    assert later.get(started.id).is_running, "a console that was restarted finds it again"
    await eventually(lambda: not jobs.get(started.id).is_running, seconds=200, pause=0.2)
    job = later.get(started.id)
    assert (job.state, job.results) == ("done", ("found.jsonl",)), jobs.files(started.id).log_tail()
    assert job.end is not None
    assert job.end.outcome is not None
    assert (job.end.outcome.read, job.end.outcome.written) == (40, 3)
    lines = (later.files(started.id).results / "found.jsonl").read_text().splitlines()
    assert {json.loads(json.loads(line)["body"])["number"] for line in lines} < {32, 34, 36, 38, 40}
    times = [json.loads(line)["store_timestamp"] for line in lines]
    assert times == sorted(times, reverse=True)
    assert [found.id for found in jobs.list()] == sorted([started.id, another.id], reverse=True)
    jobs.remove(started.id)
    with pytest.raises(ClientError, match="no job"):
        jobs.get(started.id)


@pytest.mark.parametrize(
    ("pipeline", "options", "line"),
    [
        ("find", {"topics": ""}, "required field `topics`"),
        ("find", {"topics": "a", "most": "0"}, "--most must be at least 1"),
        ("find", {"topics": "a", "colour": "red"}, "no option 'colour'"),
        ("archive", {"topics": "a"}, "required field `to`"),
        ("nothing", {}, "no pipeline 'nothing'"),
    ],
)
def test_wrong_options_start_nothing(pipeline: str, options: dict[str, str], line: str, tmp_path: Path) -> None:
    jobs = PipelineJobs(tmp_path, "127.0.0.1:1")
    with pytest.raises(ConfigError, match=line):
        jobs.start(pipeline, options)
    assert jobs.list() == []


def test_without_spark_the_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module, "find_spec", lambda name: None)
    with pytest.raises(ClientError, match=r"pip install 'pyromq\[spark\]'"):
        PipelineJobs(tmp_path, "127.0.0.1:1").start("find", {"topics": "a"})


def test_a_job_whose_process_is_gone_is_lost(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "one")
    files.results.mkdir(parents=True)
    files.write("job", JobOrder(id="one", pipeline="find", options={}, user="", started=1.0))
    files.write("process", JobProcess(pid=1, ticks=-1))  # some other process has this number
    assert PipelineJobs(tmp_path, "").get("one").state == "lost"


@pytest.mark.parametrize("name", ["", "..", ".", "../other", "a/b", "/etc"])
def test_no_name_leads_out_of_the_directory(name: str, tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="no job"):
        PipelineJobs(tmp_path, "").files(name)


def test_rates_follow_from_the_last_samples() -> None:
    assert JobProgress(samples=((1.0, 0), (3.0, 100))).rate == 50.0
    assert JobProgress(samples=((1.0, 0),)).rate is None


def test_the_end_of_a_log_is_shown(tmp_path: Path) -> None:
    files = JobFiles(tmp_path)
    assert files.log_tail() == ""
    files.log.write_text("\n".join(map(str, range(1000))))
    assert files.log_tail(2) == "998\n999"
