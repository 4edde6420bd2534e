"""What is read from the reports of brokers and members."""

from __future__ import annotations

import pytest

from pyromq.admin.groups.snapshot import release


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (409, "4.9.8"),
        (399, "4.9.3"),
        (398, "4.9.3-SNAPSHOT"),
        (317, "4.5.2"),
        (413, "5.0.0"),
        (62, "before 4.0 (62)"),
    ],
)
def test_a_version_number_stands_for_a_release(version: int, name: str) -> None:
    assert release(version) == name
