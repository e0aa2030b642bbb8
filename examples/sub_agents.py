"""An agent that asks another one; what is cancelled above ends below.

Run it: python examples/sub_agents.py
With a real model: Agent("openai:gpt-6-luna", tools=[researcher])
"""

import threading

from syncagent import Agent
from syncagent.testing import Gate, ScriptedModel, call, say


def team(answer):
    """Return an agent with a researcher, which answers from a script."""
    researcher = Agent(
        ScriptedModel(answer), name="researcher", system="You find things out."
    )
    model = ScriptedModel(
        [say("I ask.", call("researcher", {"prompt": "How old is Rome?"})), "Very old."]
    )
    return Agent(model, tools=[researcher])


def main():
    boss = team(["2,779 years"])
    result = boss.run("How old is Rome?")
    print(result.text, f"({result.usage.total_tokens} tokens, both together)")

    stuck = Gate()  # the researcher's model never answers
    boss = team([stuck, "never said"])
    threading.Thread(
        target=lambda: (stuck.wait_reached(), boss.cancel("enough"))
    ).start()
    result = boss.run("How old is Rome?")
    print(f"{result.stop_reason}; researcher: {result.tool_outcomes[0].outcome}")


if __name__ == "__main__":
    main()
