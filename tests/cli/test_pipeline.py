"""`pyromq pipeline` as far as it goes without Spark: names, options, projects."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pyromq.cli import pipeline_commands
from pyromq.cli.main import app
from pyromq.cli.pipeline_progress import watched
from pyromq.errors import ConfigError
from pyromq.pipelines import archive, project
from pyromq.pipelines.catalog import CATALOG, fields, load
from pyromq.pipelines.outcome import Outcome, Stopped
from pyromq.pipelines.run import opened


def _run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["pipeline", *arguments])


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Runs without Spark; what they were given."""
    calls: list[Any] = []

    def run(name: str, pipeline: Any, options: Any, place: Any) -> Outcome:
        calls.append((name, options, place))
        return Outcome(read=3, written=2, dropped={"no body": 1}, remarks=["All is well."])

    monkeypatch.setattr(pipeline_commands, "_run", run)
    return calls


def test_the_list_has_every_pipeline_and_each_can_be_loaded() -> None:
    lines = [json.loads(line) for line in _run("list", "--json").stdout.splitlines()]
    assert [line["pipeline"] for line in lines] == list(CATALOG)
    for name in CATALOG:
        assert all(field.help for field in fields(load(name).Options)), "every option has a help text"


def test_options_are_made_of_the_fields(given: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "10.0.0.1:9876")
    arguments = ["--to", "/a", "--topics", "orders", "--batch", "10", "--follow", "--no-fail-on-data-loss"]
    result = _run("run", "archive", *arguments, "--conf", "a=b", "--json")
    assert json.loads(result.stdout) == {
        "pipeline": "archive", "read": 3, "written": 2, "dropped": {"no body": 1}, "remarks": ["All is well."],
    }  # fmt: skip
    name, options, place = given[0]
    assert name == "archive"
    assert options == archive.Options(
        to="/a", topics="orders", batch=10, follow=True, fail_on_data_loss=False, namesrv="10.0.0.1:9876"
    )
    assert place.conf == ["a=b"]


def test_the_outcome_is_a_table_with_reasons(given: list[Any]) -> None:
    text = _run("run", "archive", "--to", "/a", "--topics", "orders").stdout
    assert "no body" in text
    assert "All is well." in text


def test_files_need_no_name_server(given: list[Any]) -> None:
    _run("run", "archive", "--to", "/a", "--topics", "orders", "--store", "/data/store")
    assert given[0][1].namesrv == ""


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run", "archive", "--to", "/a", "--topcs", "orders"], "--topics"),
        (["run", "archive"], "--to"),
        (["run", "archive", "--to", "/a", "--batch", "many"], "--batch"),
        (["run", "archiv"], "did you mean archive?"),
        (["run", "archive", "--to", "/a", "--conf", "nothing"], "key=value"),
        (["run", "archive", "--to", "/a", "--master", "local", "--remote", "sc://x"], "not both"),
    ],
)
def test_wrong_usage_says_what_is_right_and_ends_with_2(arguments: list[str], text: str) -> None:
    result = _run(*arguments)
    assert result.exit_code == 2
    assert text in " ".join(result.output.replace("│", " ").split())


def test_speculation_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="leave it out"), opened("x", conf={"spark.speculation": "True"}):
        pass


def test_a_signal_stops_the_run_at_its_next_word_and_a_second_one_at_once() -> None:
    with watched("archive") as bar:
        bar.reached(1, 10, "archiving")
        bar.stop(15, None)
        with pytest.raises(Stopped):
            bar.reached(2, 10)
        with pytest.raises(KeyboardInterrupt):
            bar.stop(15, None)


def test_a_new_project_has_a_specification_and_definitions_that_are_python(tmp_path: Path) -> None:
    result = _run("init", str(tmp_path / "shop"), "-n", "10.0.0.1:9876", "--topic", "orders", "--to", "late")
    assert result.exit_code == 0
    assert project.is_project(tmp_path / "shop")
    definitions = (tmp_path / "shop" / "transformations" / "orders.py").read_text()
    ast.parse(definitions)
    assert '"topic": "late"' in definitions
    assert "10.0.0.1:9876" in definitions
    assert f"storage: {(tmp_path / 'shop' / 'storage').as_uri()}" in (tmp_path / "shop/spark-pipeline.yml").read_text()
    again = _run("init", str(tmp_path / "shop"))
    assert isinstance(again.exception, ConfigError)


def test_what_is_no_project_is_not_run(tmp_path: Path) -> None:
    assert isinstance(_run("dry-run", str(tmp_path)).exception, ConfigError)


def test_spark_pipelines_gets_its_options_before_the_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(tmp_path / "shop", "10.0.0.1:9876", "orders", "alerts")
    started: list[list[str]] = []
    monkeypatch.setattr(project, "prepare_environment", lambda *, local: None)
    monkeypatch.setattr("os.execv", lambda path, words: started.append(words))
    _run("run", str(tmp_path / "shop"), "--conf", "a=b", "--remote", "sc://10.0.0.2")
    words = started[0]
    assert words[-3:] == ["run", "--spec", str(tmp_path / "shop" / "spark-pipeline.yml")]
    assert words.index("a=b") < words.index("run")
    assert words[words.index("--remote") + 1] == "sc://10.0.0.2"


def test_a_bad_option_of_a_pipeline_is_wrong_usage() -> None:
    with pytest.raises(typer.BadParameter):
        pipeline_commands._options(load("archive"), {"to": "/a", "batch": "x"})
