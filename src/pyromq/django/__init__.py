"""Django with an App: `pip install 'pyromq[django]'`, and `"pyromq.django"` in INSTALLED_APPS.

    manage.py run_pyromq shop.messages:app     as `pyromq run`, inside the Django project

>>> from pyromq.django import with_database
>>> @app.on("orders", group="billing")
... @with_database
... def bill(order: Order) -> None:
...     Bill.objects.create(order_id=order.id)

`apps.py` is Django's registration, `management/commands/run_pyromq.py` the command.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any, TypeVar, cast

from django.db import close_old_connections

from pyromq.errors import ClientError

F = TypeVar("F", bound=Callable[..., Any])


def with_database(function: F) -> F:
    """Give a handler connections to the database as a request has them: broken or expired ones are closed around it.

    Django does this for requests alone. Without it, a handler's thread keeps a connection that the database has closed.
    """
    if iscoroutinefunction(function):
        raise ClientError(
            f"@with_database is for plain functions, which run on threads: make {function.__name__} a `def`"
        )

    @functools.wraps(function)
    def handle(*args: Any, **kwargs: Any) -> Any:
        close_old_connections()
        try:
            return function(*args, **kwargs)
        finally:
            close_old_connections()

    return cast("F", handle)
