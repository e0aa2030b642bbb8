"""Ask for the background where no thread is to be had; say in JSON how it went.

::

    python no_thread_script.py run|stream|backgroundable
"""

import faulthandler
import json
import resource
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

from syncagent import Agent, tool
from syncagent.testing import ScriptedModel, call, complaints, no_leaks, say

#: Seconds after which something is stuck.
STUCK = 15


@contextmanager
def no_thread():
    """Let no thread begin: there is no room for the stack of one."""
    pages = Path("/proc/self/statm").read_text().split()[0]
    used = int(pages) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    room = 64 << 20
    stack = threading.stack_size(room * 4)
    resource.setrlimit(resource.RLIMIT_AS, (used + room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
        threading.stack_size(stack)


def see_that_there_is_none():
    try:
        threading.Thread(target=print, daemon=True).start()
    except RuntimeError:
        return
    raise AssertionError("there is a thread to be had")


ran = []


@tool(name="look")
def look() -> str:
    """Look, and ask for the background."""
    see_that_there_is_none()
    ran.append(threading.current_thread() is threading.main_thread())
    agent.background()
    return "seen"


@tool(name="stop")
def stop() -> str:
    """Ask for the background, and cancel the run, which has not left."""
    agent.background()
    agent.cancel()
    return "stopped"


def consume(prompt):
    with agent.stream(prompt) as stream:
        for _ in stream:
            pass
    return stream.result


if __name__ == "__main__":
    faulthandler.dump_traceback_later(STUCK, exit=True)
    face = sys.argv[1]
    rounds = [say("Look.", call("look", {}, f"c{n}")) for n in range(2)]
    model = ScriptedModel([*rounds, "Done.", say("Stop.", call("stop")), "ok", "ok"])
    agent = Agent(model, tools=[look, stop])
    settings = {} if face == "stream" else {"backgroundable": face != "run"}
    run = consume if face == "stream" else agent.run
    with no_leaks():
        with no_thread():
            result = run("Do it.", **settings)
            stopped = run("And now?", **settings)
        again = agent.run("Go on.")
    told = {
        "stop": result.stop_reason,
        "text": result.text,
        "on_main_thread": ran,
        "complaints": complaints(agent.messages),
        "cancelled": stopped.stop_reason,
        "next": again.stop_reason,
    }
    print(json.dumps(told))
