"""The path of a run, from ``Agent.run`` to the first line of the loop."""

import sys
from pathlib import Path

from syncagent import Agent
from syncagent.loop import run_loop
from syncagent.testing import ScriptedModel


def path_to_the_loop():
    """Return the functions between Agent.run and the loop, with their files."""
    path = []

    def trace(frame, event, arg):
        if frame.f_code is run_loop.__code__ and not path:
            while frame is not None:
                code = frame.f_code
                path.insert(0, (Path(code.co_filename).name, code.co_name))
                if code is Agent.run.__code__:
                    break
                frame = frame.f_back

    before = sys.getprofile()
    sys.setprofile(trace)
    try:
        Agent(ScriptedModel(["Hello."])).run("Hi.")
    finally:
        sys.setprofile(before)
    return path


def test_six_functions_lead_to_the_loop():
    """Each is named by the one concern it adds; the drawing is in live_run.py."""
    assert path_to_the_loop() == [
        ("agent.py", "run"),
        ("live_run.py", "run_to_end"),
        ("live_run.py", "driven"),
        ("live_run.py", "settled"),
        ("live_run.py", "answered"),
        ("loop.py", "run_loop"),
    ]
