"""How Django knows us."""

from __future__ import annotations

from django.apps import AppConfig


class PyroMQConfig(AppConfig):
    """An application without tables; its label would be `django` otherwise."""

    name = "pyromq.django"
    label = "pyromq"
    verbose_name = "PyroMQ"
