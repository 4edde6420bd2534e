"""The debug bundle: what is in it, and that planted secrets are not."""

from __future__ import annotations

import json
import stat
import tarfile
from pathlib import Path

import pytest

from pyromq.admin import AdminClient, BundleReport, BundleSources, DebugBundle
from pyromq.admin.contexts import contexts_path
from pyromq.admin.support import bundle
from pyromq.admin.support.bundle import log_files
from pyromq.clock import SystemClock
from pyromq.errors import ClientError
from pyromq.testing import LocalCluster

PLANTED = {
    "config": "planted-in-config-1",
    "environment": "planted-in-environment-2",
    "context": "planted-in-context-3",
    "log": "planted-in-log-4",
    "token": "planted-as-token-5",
    "etcd": "planted-in-address-6",
}


def contents(file: Path) -> dict[str, str]:
    """Return the texts of an archive by name, without the folder."""
    with tarfile.open(file) as archive:
        found = {}
        for entry in archive.getmembers():
            read = archive.extractfile(entry)
            assert read is not None
            found[entry.name.partition("/")[2]] = read.read().decode()
        return found


@pytest.fixture
def sources(tmp_path: Path) -> BundleSources:
    """Files with secrets in every place."""
    conf = tmp_path / "broker.conf"
    conf.write_text(f"brokerName=broker-a\nhaSecret={PLANTED['config']}\nfailover=etcd://u:{PLANTED['etcd']}@h:1\n")
    log = tmp_path / "pyromq.log"
    log.write_text(
        f"INFO login password={PLANTED['log']}\nWARNING slave answered {PLANTED['config']}\nERROR kept line\n"
    )
    environment = {"PYROMQ_SECRET_KEY": PLANTED["environment"], "PYROMQ_LANE": "plain", "HOME": "/root"}
    environment["XDG_CONFIG_HOME"] = str(tmp_path / "xdg")
    contexts = contexts_path(environment)
    contexts.parent.mkdir(parents=True)
    body = {
        "version": 1,
        "contexts": {"prod": {"namesrv": "a:1", "access_key": "ops", "secret_key": PLANTED["context"]}},
    }
    contexts.write_text(json.dumps(body))
    return BundleSources(configs=(conf,), logs=(log,), environment=environment, http_token=PLANTED["token"])


async def written(admin: AdminClient, sources: BundleSources, file: Path) -> tuple[BundleReport, dict[str, str]]:
    report = await DebugBundle(sources).write(admin, file)
    return report, contents(file)


async def test_planted_secrets_are_nowhere_and_the_rest_is_there(
    pair: LocalCluster, admin: AdminClient, sources: BundleSources, tmp_path: Path
) -> None:
    file = tmp_path / "bundle.tar.gz"
    report, found = await written(admin, sources, file)
    everything = "\n".join([*found, *found.values()])
    assert [secret for secret in PLANTED.values() if secret in everything] == []
    assert report.removed >= len(PLANTED) - 2
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    log = next(text for name, text in found.items() if name.startswith("logs/"))
    assert log == "INFO login password=***\nWARNING slave answered ***\nERROR kept line\n"
    conf = next(text for name, text in found.items() if name.startswith("config/"))
    assert conf.startswith("brokerName=broker-a\nhaSecret=***\n")
    assert '"namesrv": "a:1"' in found["contexts.json"]
    assert json.loads(found["environment.json"])["PYROMQ_LANE"] == "plain"
    assert "HOME" not in json.loads(found["environment.json"])


async def test_the_cluster_describes_itself(pair: LocalCluster, admin: AdminClient, tmp_path: Path) -> None:
    report, found = await written(admin, BundleSources(), tmp_path / "x.tar.gz")
    assert {"versions.json", "cluster.json", "overview.json", "doctor.jsonl", "errors.json"} <= set(found)
    assert "brokerName=broker-a\n" in found["brokers/broker-a-0/settings.conf"]
    assert "commitLogMaxOffset" in json.loads(found["brokers/broker-b-0/runtime.json"])
    assert [one["broker_name"] for one in json.loads(found["cluster.json"])["brokers"]] == ["broker-a", "broker-b"]
    steps = [json.loads(line) for line in found["doctor.jsonl"].splitlines()]
    assert [step["status"] for step in steps if step["step"] == "test message"] == ["skipped"]
    assert dict(report.missing) == {}


async def test_a_store_is_summed_up_without_its_messages(tmp_path: Path) -> None:
    async with LocalCluster() as cluster, AdminClient(cluster.namesrv, clock=cluster.clock) as admin:
        from pyromq import Message, Producer

        async with Producer("shop", cluster.namesrv) as producer:
            await producer.send(Message(topic="orders", body=b"a private body"))
        root = cluster.brokers[0].store_path
        _, found = await written(admin, BundleSources(data=(root,)), tmp_path / "x.tar.gz")
    summary = next(json.loads(text) for name, text in found.items() if name.endswith("summary.json"))
    files = next(text for name, text in found.items() if name.endswith("files.txt"))
    assert summary
    assert "commitlog/" in files
    assert "a private body" not in "".join(found.values())


async def test_what_is_missing_is_named_and_ends_nothing(tmp_path: Path) -> None:
    sources = BundleSources(
        data=(tmp_path / "none",), configs=(tmp_path / "no.conf",), logs=(tmp_path,), http=("http://127.0.0.1:1", "::")
    )
    async with AdminClient("127.0.0.1:1") as admin:
        report, found = await written(admin, sources, tmp_path / "x.tar.gz")
        with pytest.raises(ClientError, match="exists"):
            await DebugBundle(sources).write(admin, tmp_path / "x.tar.gz")
    assert "no name server answers" in report.missing["cluster"]
    missing = json.loads(found["errors.json"])
    assert {name.partition("/")[0] for name in missing} == {"cluster", "config", "logs", "store", "http"}
    assert "doctor.jsonl" in found


async def test_a_long_log_is_cut_at_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "LOG_BYTES", 100)
    log = tmp_path / "long.log"
    log.write_text("old\n" * 1000 + "the last line\n")
    collected = DebugBundle(BundleSources(logs=(log,)), SystemClock())
    collected._add_file("logs", log, bundle.LOG_BYTES)
    collected._pack(tmp_path / "x.tar.gz")
    text = next(text for name, text in contents(tmp_path / "x.tar.gz").items() if name.startswith("logs/"))
    assert text.startswith("… 3,914 bytes left out\n")
    assert text.endswith("the last line\n")


def test_log_files_are_found_newest_first(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for number, name in enumerate(["a.log", "a.log.1", "logs/b.log", "broker.conf"]):
        path = tmp_path / name
        path.write_text("x")
        import os

        os.utime(path, (number, number))
    assert [path.name for path in log_files([tmp_path, tmp_path / "none"])] == ["b.log", "a.log.1", "a.log"]
