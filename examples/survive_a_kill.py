"""Kill a process in the middle of a tool, and go on: what had begun is not run twice.

Run it: python examples/survive_a_kill.py
With a real model: Agent("openai:gpt-6-luna", tools=[charge], hooks=[saving])
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from syncagent import Agent, ToolContext, tool
from syncagent.events import ToolFinished, ToolStarted
from syncagent.testing import ScriptedModel, call, say

STATE = Path("state.json")


@tool
def charge(name: str, ctx: ToolContext) -> str:
    """Charge somebody."""
    print(f"[process {os.getpid()}] charging {name}", flush=True)
    ctx.sleep(60 if name == "Bob" else 0)  # the process is killed here
    return f"{name} has paid"


class SaveAtTools:
    """Write the state down before a tool is called, and when it has ended."""

    def on_event(self, event):
        if isinstance(event, (ToolStarted, ToolFinished)):
            Path("new.json").write_text(self.agent.save())
            os.replace("new.json", STATE)  # all of it, or what was there before


def begin():
    calls = [call("charge", {"name": name}, name) for name in ("Ada", "Bob", "Cid")]
    saving, model = SaveAtTools(), ScriptedModel([say(*calls)])
    saving.agent = Agent(model, tools=[charge], hooks=[saving])
    saving.agent.run("Charge all three.")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        again = [sys.executable, __file__, "begin"]
        with subprocess.Popen(again, stdout=subprocess.PIPE, text=True) as child:
            for line in child.stdout:
                print(line, end="")
                if "Bob" in line:
                    child.kill()
        state, model = STATE.read_text(), ScriptedModel(["Ask Bob."])
        agent = Agent.load(state, model, tools=[charge])
        for each in agent.resume().tool_outcomes:
            print(f"{each.call_id}: {each.outcome}")


if __name__ == "__main__":
    begin() if len(sys.argv) > 1 else main()
