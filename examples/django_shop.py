"""A Django project whose handlers write to its database; here all of it is in one file.

pip install 'pyromq[django]'
pyromq up                                # in another terminal
python examples/django_shop.py [NAMESRV]

In a project: "pyromq.django" in INSTALLED_APPS, and `python manage.py run_pyromq shop.messages:app --workers 4`.
"""

# Django has no types.
# pyright: standard, reportAttributeAccessIssue=false
from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connection, models
from msgspec import Struct

from pyromq import App, Producer
from pyromq.django import with_database

DATABASE = Path(tempfile.mkdtemp()) / "shop.db"
settings.configure(
    INSTALLED_APPS=["pyromq.django"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATABASE}},
)
django.setup()

app = App("example-django")


class Bill(models.Model):
    order_id = models.CharField(max_length=64)

    class Meta:
        app_label = "shop"


class Order(Struct):
    id: str


@app.on("example-django-orders", group="example-django-billing", start_from="earliest")
@with_database
def bill(order: Order) -> None:
    """Write a row; a plain function runs on a thread, with a connection of its own."""
    Bill.objects.create(order_id=order.id)
    print("received", order.id, "bills:", Bill.objects.count())
    os.kill(os.getpid(), signal.SIGTERM)  # a service would go on


@app.on_startup
async def place_an_order(producer: Producer) -> None:
    await producer.send("example-django-orders", Order("o-1"), keys="o-1")


if __name__ == "__main__":
    with connection.schema_editor() as editor:
        editor.create_model(Bill)
    address = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
    call_command("run_pyromq", "__main__:app", namesrv=address)
