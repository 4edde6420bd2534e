"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("pyromq", deadline=None)  # a noisy machine is not a failure
settings.load_profile("pyromq")
