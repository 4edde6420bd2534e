"""`pyromq pipeline` as far as it goes without Spark: names, options, projects."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pyromq.cli.pipeline import generated_commands
from pyromq.cli.pipeline.progress_bar import watched
from pyromq.cli.verbs import app
from pyromq.errors import ConfigError, PyroMQError
from pyromq.pipelines import archive, project
from pyromq.pipelines.catalog import CATALOG, fields, load
from pyromq.pipelines.common.pipeline_session import one_line_errors, opened
from pyromq.pipelines.outcome import Outcome, Stopped


def _run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["pipeline", *arguments])


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Replace runs with Spark; return what they were given."""
    calls: list[Any] = []

    def run(name: str, pipeline: Any, options: Any, place: Any) -> Outcome:
        calls.append((name, options, place))
        return Outcome(read=3, written=2, dropped={"no body": 1}, remarks=["All is well."])

    monkeypatch.setattr(generated_commands, "_run", run)
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
        (["run", "archive", "--to", "/a", "--topics", "t", "--conf", "nothing"], "key=value"),
        (["run", "archive", "--to", "/a", "--topics", "t", "--master", "local", "--remote", "sc://x"], "not both"),
        (["run", "archive", "--to", "/a"], "--topics a,b"),
        (["run", "archive", "--to", "/a", "--pattern", "th["], "not a regular expression"),
        (["run", "archive", "--to", "/a", "--topics", "t", "--start", "yesterday"], "a time such as"),
        (["run", "archive", "--to", "/a", "--topics", "t", "--batch", "0"], "--batch must be at least 1, not 0"),
        (["run", "replay"], "--archive DIR or --dead-letters GROUP"),
        (["run", "replay", "--archive", "/a", "--since", "yesterday"], "--since must be a time such as"),
        (["run", "replay", "--archive", "/a", "--rate", "-1"], "--rate must be at least 0, not -1"),
        (["run", "widen", "--topic", "a", "--to", "a", "--group", "g", "--checkpoint", "/c"], "the topic itself"),
        (["run", "widen", "--topic", "a", "--to", "b c", "--group", "g", "--checkpoint", "/c"], "'b c'"),
        (["run", "orders", "--window", "often"], "a duration such as 30 seconds"),
        (["run", "orders", "--parts", "0"], "--parts must be at least 1, not 0"),
    ],
)
def test_wrong_usage_says_what_is_right_and_ends_with_2(arguments: list[str], text: str) -> None:
    result = _run(*arguments)
    assert result.exit_code == 2
    assert text in " ".join(result.output.replace("│", " ").split())


def test_speculation_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="switch it off"), opened("x", conf={"spark.speculation": "True"}):
        pass


def test_a_jvm_that_was_stopped_from_outside_is_told_in_words() -> None:
    with pytest.raises(PyroMQError, match="run the same command again to continue"), one_line_errors():
        raise ConnectionRefusedError(111, "Connection refused")


def test_how_to_go_on_after_a_loss_is_told_in_the_words_of_the_command() -> None:
    with pytest.raises(PyroMQError, match=r"^gone; --no-fail-on-data-loss continues$"), one_line_errors():
        raise RuntimeError("gone; set failOnDataLoss=false to continue")


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
    assert str(again.exception) == f"{tmp_path / 'shop'} is not empty: choose a new directory"


def test_a_project_that_could_not_run_is_not_written(tmp_path: Path) -> None:
    for arguments, text in ((["--topic", 'a"b'], 'a"b'), (["--topic", "t", "--to", "t"], "its own output")):
        result = _run("init", str(tmp_path / "shop"), *arguments)
        assert isinstance(result.exception, PyroMQError)
        assert text in str(result.exception)
    assert not (tmp_path / "shop").exists()


def test_what_is_no_project_is_not_run(tmp_path: Path) -> None:
    assert isinstance(_run("dry-run", str(tmp_path)).exception, ConfigError)
    result = _run("run", str(tmp_path))
    assert result.exit_code == 2
    assert "spark-pipeline.yml" in result.output


class Runner:
    """Records what Spark's runner of projects would be asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None, told: str = "") -> None:
        self.sessions: list[tuple[Any, ...]] = []
        self.specifications: list[Path] = []
        self._error, self._told = error, told
        monkeypatch.setattr(project, "start", lambda *given: self.sessions.append(given))
        monkeypatch.setattr("pyspark.pipelines.cli.run", self.run)

    def run(self, specification: Path, *, dry: bool, **refresh: Any) -> None:
        self.specifications.append(specification)
        print(self._told)
        if self._error is not None:
            raise self._error


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    project.write(tmp_path / "shop", "10.0.0.1:9876", "orders", "alerts")
    return tmp_path / "shop"


def test_a_project_is_run_by_spark_over_connect_with_the_users_settings(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Runner(monkeypatch, told="Run is COMPLETED.")
    result = _run("run", str(shop), "--conf", "a=b", "--master", "local[3]")
    assert result.exit_code == 0
    assert "Run is COMPLETED." in result.stdout
    assert runner.specifications == [shop / "spark-pipeline.yml"]
    name, master, conf = runner.sessions[0]
    assert (name, master) == ("pyromq shop", "local[3]")
    assert (conf["a"], conf["spark.api.mode"]) == ("b", "connect")


def test_a_flow_that_is_wrong_is_named_with_its_reason(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = "Failed to resolve flow: 'orders'.\nError: [PARSE_SYNTAX_ERROR] Syntax error at 'lng'. SQLSTATE: 42601"
    Runner(monkeypatch, Exception("Failed to resolve flows in the pipeline."), told)
    assert str(_run("dry-run", str(shop)).exception) == "flow orders: Syntax error at 'lng'."


def test_a_mistake_in_a_definition_is_found_by_file_and_line(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shop / "transformations" / "orders.py"
    path.write_text("x = 1\nprint(y)\n")
    with pytest.raises(NameError) as caught:
        exec(compile(path.read_text(), str(path), "exec"), {})
    Runner(monkeypatch, caught.value)
    expected = "transformations/orders.py, line 2: NameError: name 'y' is not defined"
    assert str(_run("run", str(shop)).exception) == expected
    with pytest.raises(SyntaxError) as broken:
        compile("x = = 1", str(path), "exec")
    Runner(monkeypatch, broken.value)
    assert str(_run("run", str(shop)).exception) == "transformations/orders.py, line 1: invalid syntax"


def test_a_projects_place_and_settings_are_checked_first(shop: Path) -> None:
    assert _run("run", str(shop), "--master", "local", "--remote", "sc://x").exit_code == 2
    assert _run("run", str(shop), "--conf", "nothing").exit_code == 2
    refused = _run("run", str(shop), "--conf", "spark.speculation=true").exception
    assert "switch it off" in str(refused)


def test_a_bad_option_of_a_pipeline_is_wrong_usage() -> None:
    with pytest.raises(typer.BadParameter):
        generated_commands._options(load("archive"), {"to": "/a", "batch": "x"})
