"""`manage.py run_pyromq` in a project of its own: settings, models, workers, errors."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq import blocking
from pyromq.testing import LocalCluster, wait_until

SOURCE = Path(__file__).parents[4] / "src"
MANAGE = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""
SETTINGS = """
INSTALLED_APPS = ["pyromq.django", "shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db", "OPTIONS": {"timeout": 30}}}
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
"""
MODELS = """
from django.db import models

class Bill(models.Model):
    order_id = models.CharField(max_length=64)
"""
MESSAGES = """
from pyromq import App
from pyromq.django import with_database
from shop.models import Bill

app = App("shop")

@app.on("orders", group="billing", start_from="earliest")
@with_database
def bill(order: dict[str, str]) -> None:
    Bill.objects.create(order_id=order["id"])
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {"manage.py": MANAGE, "settings.py": SETTINGS, "shop/models.py": MODELS, "shop/messages.py": MESSAGES}
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("create table shop_bill (id integer primary key autoincrement, order_id text)")
    return tmp_path


def command(*arguments: str) -> list[str]:
    return [sys.executable, "manage.py", "run_pyromq", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE)}


def bills(project: Path) -> set[str]:
    with sqlite3.connect(project / "shop.db") as database:
        return {row[0] for row in database.execute("select order_id from shop_bill")}


def test_workers_write_to_the_database_of_the_project_and_end_in_order(project: Path) -> None:
    with LocalCluster() as cluster, blocking.Producer("web", cluster.namesrv, send_timeout=30) as producer:
        for number in range(8):
            producer.send("orders", {"id": f"o-{number}"})
        arguments = command("shop.messages:app", "-n", cluster.namesrv, "--workers", "2")
        running = subprocess.Popen(arguments, cwd=project, env=environment())
        try:
            wait_until(lambda: bills(project) == {f"o-{number}" for number in range(8)})
            running.send_signal(signal.SIGTERM)
            assert running.wait(60) == 0
        finally:
            running.kill()


def test_an_app_that_is_not_there_is_one_line(project: Path) -> None:
    done = subprocess.run(
        command("shop.messages:ap"), cwd=project, env=environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr == "CommandError: shop.messages:ap is not an App; did you mean shop.messages:app?\n"
