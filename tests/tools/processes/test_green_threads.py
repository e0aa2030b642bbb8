"""Processes in programs that replace threads, sockets and subprocess by their own."""

import subprocess
import sys

import pytest
from support.processes import script_environment
from support.threads import LONG

PROGRAM = """
import time
from syncagent.cancel import CancelToken
from syncagent.tools.processes.call import WorkerKilled, call, find_target
from syncagent.tools.processes.program import run_process

def run(function, *args, kill_on=()):
    target = find_target(function)
    return call(target, args, {}, context=None, kill_on=kill_on, serve=print)

if __name__ == "__main__":
    print(run_process(["echo", "program"], token=CancelToken()).stdout, end="")
    print(run(abs, -3), len(run(bytes, 1_000_000)))
    try:
        run(time.sleep, 1000, kill_on=[CancelToken(timeout=0.2)])
    except WorkerKilled:
        print("killed")
"""


def run_after(tmp_path, patch):
    script = tmp_path / "script.py"
    script.write_text(patch + PROGRAM)
    return subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
        env=script_environment(),
    )


@pytest.mark.slow
def test_gevent(tmp_path):
    """L13: programs and workers run, and end, as without it."""
    pytest.importorskip("gevent")
    ended = run_after(tmp_path, "from gevent import monkey; monkey.patch_all()\n")
    assert ended.stdout == "program\n3 1000000\nkilled\n", ended.stderr


def test_eventlet(tmp_path):
    """L13: it takes away what processes need, and the error names it."""
    patch = "import select, sys\nsys.modules['eventlet'] = sys\ndel select.poll\n"
    ended = run_after(tmp_path, patch)
    assert "ConfigurationError" in ended.stderr
    assert "eventlet.monkey_patch() removes" in ended.stderr
