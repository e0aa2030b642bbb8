"""Save a run that waits for an answer, and go on with it in another process.

Run it: python examples/save_and_resume.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from syncagent import Agent, tool
from syncagent.testing import ScriptedModel, call, say


@tool(requires_approval=True)
def deploy(version: str) -> str:
    """Deploy a version."""
    print(f"[process {os.getpid()}] deploying {version}")
    return f"{version} is live"


def ask(path):
    """Begin, and write down what there is when somebody has to be asked."""
    script = ScriptedModel([say("I can.", call("deploy", {"version": "2.1"}))])
    agent = Agent(os.environ.get("SYNCAGENT_MODEL") or script, tools=[deploy])
    result = agent.run("Deploy 2.1.")
    asked = [question.tool for question in result.interrupts]
    print(f"[process {os.getpid()}] {result.stop_reason}: {asked}")
    path.write_text(agent.save())
    return asked


def go_on(path):
    """Go on from there: model, tools and keys are given, the state has none of them."""
    model = os.environ.get("SYNCAGENT_MODEL") or ScriptedModel(["It is live."])
    claims = path.with_name("claims")
    # Claimed: of all processes that load this state, one may deploy.
    agent = Agent.load(path.read_text(), model, tools=[deploy], claim=claims)
    answers = {question.id: True for question in agent.interrupts}
    result = agent.resume(answers)
    print(f"[process {os.getpid()}] {result.text} ({len(result.messages)} messages)")


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.json")
        if ask(path):
            print(f"{path.stat().st_size} bytes of JSON")
            subprocess.run([sys.executable, __file__, path], check=True, timeout=60)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        go_on(Path(sys.argv[1]))
    else:
        main()
