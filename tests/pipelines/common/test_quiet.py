"""The usual output of Spark's JVM at its start is dropped; other output is not."""

from __future__ import annotations

import logging
import subprocess
import time

import pytest

from pyromq.pipelines.common.quiet import quiet_jvm

SCRIPT = """
echo 'WARNING: Using incubator modules: jdk.incubator.vector' >&2
echo 'Setting Spark log level to "FATAL".' >&2
printf 'Traceback (most recent call last):\\n  File "x"\\ny.Error: [CANNOT_OPEN_SOCKET] timed out\\n' >&2
printf 'Traceback (most recent call last):\\n  File "x"\\njava: not enough memory\\n' >&2
"""
PASSED_ON = 'Traceback (most recent call last):\n  File "x"\njava: not enough memory\n'


def _heard(capfd: pytest.CaptureFixture[str]) -> str:
    deadline, text = time.monotonic() + 10, ""
    while "memory" not in text and time.monotonic() < deadline:
        text += capfd.readouterr().err
    return text


def test_the_usual_first_lines_are_dropped_and_others_are_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet_jvm():
        subprocess.run(["sh", "-c", SCRIPT], check=True)
    assert _heard(capfd) == PASSED_ON


def test_what_was_said_before_an_error_comes_before_it(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(subprocess.CalledProcessError), quiet_jvm():
        subprocess.run(["sh", "-c", f"{SCRIPT} exit 1"], check=True)
    assert capfd.readouterr().err == PASSED_ON


def test_what_py4j_says_about_an_interrupt_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    with quiet_jvm():
        logging.error("KeyboardInterrupt while sending command.")
        logging.error("Exception while sending command.")
        logging.getLogger("py4j.clientserver").error("Exception occurred while shutting down connection")
        logging.error("something else")
    assert caplog.messages == ["something else"]
