"""What a client trusts and shows: given, or by the environment."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pyromq.errors import ConfigError
from pyromq.remoting.tls.client_tls import Tls, chosen_tls, environment_tls, tls_variables
from tests.certificates import Authority


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"PYROMQ_TLS": "true"}, Tls()),
        ({"PYROMQ_TLS": "false", "PYROMQ_TLS_CA_FILE": "ca.pem"}, None),
        ({"PYROMQ_TLS_CA_FILE": "ca.pem"}, Tls(ca_file="ca.pem")),
        ({"PYROMQ_TLS_VERIFY": "false"}, Tls(verify=False)),
        (
            {"PYROMQ_TLS_CERT_FILE": "a", "PYROMQ_TLS_KEY_FILE": "b", "PYROMQ_TLS_KEY_PASSWORD": "c"},
            Tls(cert_file="a", key_file="b", key_password="c"),
        ),
    ],
)
def test_the_environment_decides_where_nothing_is_given(variables: dict[str, str], expected: Tls | None) -> None:
    assert environment_tls(variables) == expected
    assert chosen_tls(None, variables) == expected
    assert chosen_tls(False, variables) is None
    assert chosen_tls(True, variables) == Tls()
    if expected is not None:
        assert environment_tls(tls_variables(expected)) == expected


def test_a_variable_that_is_neither_true_nor_false_is_named() -> None:
    with pytest.raises(ConfigError, match="PYROMQ_TLS must be true or false, not 'yes'"):
        environment_tls({"PYROMQ_TLS": "yes"})


def test_a_password_is_never_shown() -> None:
    assert "sesame" not in repr(Tls(cert_file="a", key_password="sesame"))


def test_files_are_read_again_when_they_have_changed(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = Tls(ca_file=str(authority.file))
    first = tls.context()
    assert tls.context() is first
    os.utime(authority.file, (time.time(), time.time() + 10))
    assert tls.context() is not first


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.pem"):
        Tls(ca_file=str(tmp_path / "nowhere.pem")).context()
