"""What is to happen when a run is over happens, also if the interpreter exits."""

import subprocess
import sys

import pytest
from support.threads import LONG

SCRIPT = """
import threading
from syncagent import Agent, Runtime
from syncagent.testing import ScriptedModel

def store(handle):
    threading.Event().wait(0.3)  # a slow disk
    print(handle.result().text, flush=True)

runtime = Runtime()
handle = runtime.start(Agent(ScriptedModel(["kept"])), keep_alive=True)
handle.add_done_callback(store)
handle.send_input("go")
handle.result()
"""


@pytest.mark.slow
def test_a_runtime_waits_for_done_callbacks():
    """A drain is through when the callbacks are, so that none is cut off by an exit."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "kept\n", "")
