"""`pyromq console` as a person starts it: the first password, signing in, and addresses that are wrong."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from pyromq.testing import LocalCluster, wait_until
from tests.certificates import Authority
from tests.cli.conftest import one_line_error, pyromq_here

READY = r"PyroMQ console ready: (https?://127\.0\.0\.1:\d+) namesrv (\S+)\n"
PASSWORD = r"PyroMQ console: sign in as admin with the password (\S+) \(shown only this once\)\n"


class Started(NamedTuple):
    """A running `pyromq console`."""

    process: subprocess.Popen[str]
    url: str
    password: str
    """The first password, empty if it printed none."""
    log: Path


@contextmanager
def started(namesrv: str, data: Path, *options: str | Path) -> Iterator[Started]:
    """Start the console, wait for its ready line, and stop it at the end as Ctrl-C would."""
    data.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "pyromq.cli.main", "console", "-n", namesrv, "--port", "0", "--data", str(data)]
    command += [str(option) for option in options]
    log = data / "stderr.log"
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        password = re.fullmatch(PASSWORD, line)
        found = re.fullmatch(READY, process.stdout.readline() if password else line)
        assert found, log.read_text()
        assert found[2] == namesrv
        yield Started(process, found[1], password[1] if password else "", log)
        process.terminate()
        assert process.wait(30) == 0
        assert "Traceback" not in log.read_text()
    finally:
        process.kill()
        process.communicate()


def sign_in(browser: httpx.Client, password: str) -> httpx.Response:
    return browser.post("/login", data={"name": "admin", "password": password, "next": "/"})


def test_the_printed_password_opens_the_overview_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    data = tmp_path / "console"
    with LocalCluster() as cluster:
        with started(cluster.namesrv, data) as console, httpx.Client(base_url=console.url, timeout=30) as browser:
            password = console.password
            assert browser.get("/").headers["location"].startswith("/login")
            refused = sign_in(browser, password[:-1])
            assert refused.status_code == 401
            assert "Name or password is wrong." in refused.text
            assert browser.get("/").status_code == 303
            assert sign_in(browser, password).headers["location"] == "/"
            overview = browser.get("/")
            assert overview.status_code == 200
            assert "<h1>Overview</h1>" in overview.text
            assert "DefaultCluster" in overview.text
        assert password not in (data / "console.yml").read_text()
        with started(cluster.namesrv, data) as again, httpx.Client(base_url=again.url, timeout=30) as browser:
            assert again.password == ""  # it is printed once
            assert sign_in(browser, password).headers["location"] == "/"


def test_where_no_name_server_answers_one_line_says_so_and_the_overview_too(tmp_path: Path) -> None:
    with started("127.0.0.1:1", tmp_path) as console, httpx.Client(base_url=console.url, timeout=30) as browser:
        sign_in(browser, console.password)
        wait_until(lambda: "no name server answers" in console.log.read_text())
        (line,) = [line for line in console.log.read_text().splitlines() if " INFO " not in line]
        assert "the cluster cannot be read, the console tries again: no name server answers: 127.0.0.1:1" in line
        overview = browser.get("/")
        assert overview.status_code == 200
        assert "The cluster cannot be read: no name server answers: 127.0.0.1:1" in overview.text
        for path in ("/topics", "/groups", "/dead-letters"):  # none says that there is nothing
            page = browser.get(path).text
            assert "The cluster cannot be read: no name server answers: 127.0.0.1:1" in page
            assert "Nothing is known yet" in page
            assert 'class="empty"' not in page


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:abc", "127.0.0.1:99999", ":9876"])
def test_an_address_that_is_none_is_one_line_and_makes_no_password(address: str, tmp_path: Path) -> None:
    line = one_line_error(pyromq_here("console", "-n", address, "--port", "0", "--data", str(tmp_path)))
    assert line == f"pyromq: not a name server's address: {address!r}; expected host:port"
    assert not list(tmp_path.iterdir())


def test_a_port_in_use_is_one_line_that_names_the_option(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = one_line_error(pyromq_here("console", "-n", "127.0.0.1:1", "--port", port, "--data", str(tmp_path)))
    assert f":{port}: address already in use" in line
    assert "choose another port with --port" in line
    assert not list(tmp_path.iterdir())


def test_with_a_certificate_it_speaks_https_only_and_its_cookie_is_secure(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.sign("server", "127.0.0.1")
    trusted = ssl.create_default_context(cafile=authority.file)
    options = ("--tls-cert", cert, "--tls-key", key)
    with LocalCluster() as cluster, started(cluster.namesrv, tmp_path / "console", *options) as console:
        assert console.url.startswith("https://")
        with httpx.Client(base_url=console.url, timeout=30, verify=trusted) as browser:
            signed_in = sign_in(browser, console.password)
            assert signed_in.status_code == 303
            assert "secure" in signed_in.headers["set-cookie"].lower()
        with pytest.raises(httpx.HTTPError):
            httpx.get(console.url.replace("https", "http"), timeout=30)


def test_a_wrong_certificate_is_reported_before_there_is_a_password(tmp_path: Path) -> None:
    options = ["console", "-n", "127.0.0.1:1", "--port", "0", "--data", str(tmp_path), "--tls-cert", "nowhere.pem"]
    assert "nowhere.pem" in one_line_error(pyromq_here(*options))
