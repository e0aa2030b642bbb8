"""Run functions in threads, all at once, and come back with what they raised."""

import os
import subprocess
import sys
import threading
from pathlib import Path

TESTS = Path(__file__).parent
#: Seconds after which a test that waits for something has failed.
LONG = 20.0


def together(*functions, timeout=LONG):
    """Run *functions* in a thread each, all at once; raise what one raised."""
    barrier = threading.Barrier(len(functions))
    errors = []

    def run(function):
        try:
            barrier.wait(timeout)
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(f,), daemon=True) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
    stuck = sum(thread.is_alive() for thread in threads)
    assert not stuck, f"{stuck} of {len(threads)} threads did not end in {timeout} s"
    if errors:
        raise errors[0]


def run_script(name, *arguments, timeout=LONG):
    """Run a script that lies beside the tests in an interpreter of its own."""
    return subprocess.run(
        script_command(name, *arguments),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=script_environment(),
    )


def script_environment():
    """Return that of a script: it finds what lies beside this, and what we import."""
    found = [str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, found))}


def script_command(path, *arguments):
    """Return what runs a script, which is named from the folder of the tests."""
    script = TESTS / f"{path}.py"
    return [sys.executable, "-W", "error", str(script), *map(str, arguments)]
