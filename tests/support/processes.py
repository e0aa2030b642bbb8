"""Scripts in interpreters of their own, and functions in forked children."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

from support.threads import LONG

TESTS = Path(__file__).parents[1]


def in_child(function):
    """Run *function* in a forked child and return what it returned."""
    readable, writable = os.pipe()
    pid = fork()
    if pid == 0:
        try:
            os.write(writable, json.dumps(function()).encode())
        finally:
            os._exit(0)
    os.close(writable)
    with os.fdopen(readable) as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(said) if said else "nothing"


def fork():
    """Fork, without the warning about threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def run_script(name, *arguments, timeout=LONG):
    """Run a script of the tests folder in its own interpreter."""
    return subprocess.run(
        script_command(name, *arguments),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=script_environment(),
    )


def script_environment():
    """Return the environment of a script: it can import ``support`` and the package."""
    found = [str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, found))}


def script_command(path, *arguments):
    """Return the command for a script, named by its path below the tests folder."""
    script = TESTS / f"{path}.py"
    return [sys.executable, "-W", "error", str(script), *map(str, arguments)]
