"""Record a run whose tool kills this process, as hard as can be."""

import os
import signal
import sys

from syncagent import Agent, tool
from syncagent.testing import ScriptedModel, call, say


@tool
def die() -> str:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


model = ScriptedModel([say("I die.", call("die", {}, "die_1"))])
Agent(model, tools=[die]).run("Die.", record=sys.argv[1])
