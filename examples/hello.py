"""An agent with a tool, on this thread: ask, and wait for the answer.

Run it: python examples/hello.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os

from syncagent import Agent, tool
from syncagent.testing import ScriptedModel, call, say


@tool
def weather(city: str, unit: str = "celsius") -> dict:
    """Tell the weather.

    :param city: where to look.
    :param unit: celsius or fahrenheit.
    """
    return {"city": city, "temperature": 21, "unit": unit}


def main():
    model = os.environ.get("SYNCAGENT_MODEL") or ScriptedModel(
        [
            say("Let me look.", call("weather", {"city": "Oslo"})),
            "It is 21 degrees in Oslo.",
        ]
    )
    agent = Agent(model, tools=[weather], system="Be brief.")
    result = agent.run("How warm is it in Oslo?")
    print(result.text)
    print(f"{result.turns} turns, {result.usage.total_tokens} tokens")
    for outcome in result.tool_outcomes:
        print(f"{outcome.name}: {outcome.outcome}")


if __name__ == "__main__":
    main()
