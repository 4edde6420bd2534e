"""Secrets in all the forms in which they are written, and what is no secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.admin.support.secrets import SecretRemover

SECRET = "s3cr3t-Val/ue+1"


@pytest.mark.parametrize(
    "text",
    [
        f"haSecret={SECRET}",
        f"secretKey: {SECRET}",
        f"  - secretKey: '{SECRET}'",
        f'{{"secret_key": "{SECRET}", "a": 1}}',
        f'{{"accessKey":"{SECRET}"}}',
        f"export PYROMQ_SECRET_KEY={SECRET}",
        f"tls.client.keyPassword={SECRET}",
        f"INFO login password={SECRET}, next",
        f"pyromq up --http-token {SECRET} --port 1",
        f"Authorization: Bearer {SECRET}",
        f"got header 'bearer {SECRET}'",
        f"etcd://root:{SECRET}@10.0.0.1:2379",
        f"DB_PASSWD = {SECRET}",
        f"api-key={SECRET}&x=1",
        f"passphrase: two words {SECRET}",
        f"Server=db;pwd={SECRET};",
    ],
)
def test_a_secret_is_removed(text: str) -> None:
    remover = SecretRemover()
    cleaned = remover.clean(text)
    assert SECRET not in cleaned
    assert "***" in cleaned
    assert remover.removed >= 1


def test_a_private_key_is_removed() -> None:
    text = "before\n-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\nxyz\n-----END RSA PRIVATE KEY-----\nafter"
    cleaned = SecretRemover().clean(text)
    assert "MIIE" not in cleaned
    assert cleaned.startswith("before\n")
    assert cleaned.endswith("\nafter")
    assert "MIIE" not in SecretRemover().clean("-----BEGIN PRIVATE KEY-----\nMIIEcut")


@pytest.mark.parametrize(
    "text",
    [
        "keys=o-1,o-2",
        "brokerName=broker-a",
        '{"topic": "orders", "lag": 5}',
        "tokens are counted",
        "haSecret=",
        "PWD=/var/lib/pyromq",
        "export OLDPWD=/tmp/somewhere",
        "haSecret=***",
        "http://10.0.0.1:8080/varz",
        "INFO topic created topic=orders queues=4",
    ],
)
def test_other_text_stays(text: str) -> None:
    remover = SecretRemover()
    remover.learn(text)
    assert remover.clean(text) == text
    assert remover.removed == 0


def test_a_learned_value_is_removed_wherever_it_stands() -> None:
    remover = SecretRemover()
    remover.learn('{"secret_key": "hunter22"}')
    remover.learn_environment({"PYROMQ_SECRET_KEY": 'quo"ted', "PATH": "/usr/bin", "PWD": "/srv/pyromq"})
    assert remover.clean("store in /srv/pyromq/data") == "store in /srv/pyromq/data"
    assert remover.clean("WARNING signature of hunter22 refused") == "WARNING signature of *** refused"
    assert remover.clean('{"line": "x quo\\"ted y"}') == '{"line": "x *** y"}'
    assert remover.clean("PATH is /usr/bin") == "PATH is /usr/bin"


def test_a_short_value_is_not_looked_for_elsewhere() -> None:
    remover = SecretRemover()
    remover.learn("password=a\ntoken=true")
    assert remover.clean("a b a") == "a b a"


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="\"'\\"), min_size=6, max_size=40))
def test_any_value_of_a_secret_setting_is_removed(value: str) -> None:
    remover = SecretRemover()
    for text in (f"haSecret={value}", f'{{"haSecret": "{value}"}}', f"haSecret: {value}"):
        remover.learn(text)
        name_only = remover.clean(text)
        assert value not in name_only.replace("haSecret", "") or value in ("haSecret", "***")
