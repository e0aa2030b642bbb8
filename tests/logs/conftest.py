"""Log files in a temporary directory, a disk that stalls, and scripts to fork in."""

import fcntl
import json
import subprocess
import sys
from contextlib import contextmanager

import pytest

SCRIPT_S = 30


@pytest.fixture
def log_path(tmp_path):
    """Return where this test logs to."""
    return tmp_path / "agent.log"


def lines_of(path):
    """Return the lines of a log file, which must end with one."""
    text = path.read_text()
    assert text == "" or text.endswith("\n")
    return text.splitlines()


@pytest.fixture
def run_script(tmp_path):
    """Return a function that runs a script in a process of its own, within a bound."""

    def run(source, *args):
        script = tmp_path / "script.py"
        script.write_text(source)
        command = [sys.executable, "-W", "error", str(script), *map(str, args)]
        return subprocess.run(
            command, timeout=SCRIPT_S, check=True, capture_output=True, text=True
        )

    return run


@contextmanager
def stalled(log_path):
    """Make writing to *log_path* wait, by holding the lock that writers take."""
    with open(log_path.with_name(f".__{log_path.stem}.lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)


@pytest.fixture
def stall(log_path):
    """Return a context manager inside which the disk does not answer."""
    return lambda: stalled(log_path)


@pytest.fixture
def read_json(log_path):
    """Return a function that reads the records of this test, oldest file first."""

    def read():
        rotated = log_path.parent.glob(f"{log_path.name}.[0-9]*")
        by_age = sorted(rotated, key=lambda path: -int(path.suffix[1:]))
        lines = [line for path in [*by_age, log_path] for line in lines_of(path)]
        return [json.loads(line) for line in lines]

    return read
