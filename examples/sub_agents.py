"""An agent that asks another one; what is cancelled above ends below.

Run it: python examples/sub_agents.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os
import threading

from syncagent import Agent
from syncagent.testing import Gate, ScriptedModel, call, say


def team(answer):
    """Return an agent with a researcher, which answers from a script."""
    real = os.environ.get("SYNCAGENT_MODEL")
    asks = say("I ask.", call("researcher", {"prompt": "How old is Rome?"}))
    system = "You find things out."
    researcher = Agent(real or ScriptedModel(answer), name="researcher", system=system)
    return Agent(real or ScriptedModel([asks, "Very old."]), tools=[researcher])


def main():
    boss = team(["2,779 years"])
    result = boss.run("How old is Rome?")
    print(result.text, f"({result.usage.total_tokens} tokens, both together)")

    boss = team([Gate(), "never said"])  # the researcher's model does not respond
    threading.Timer(0.3, boss.cancel, ["enough"]).start()
    result = boss.run("How old is Rome? Ask the researcher.")
    ends = [f"{each.name}: {each.outcome}" for each in result.tool_outcomes]
    print(result.summary, ends)


if __name__ == "__main__":
    main()
