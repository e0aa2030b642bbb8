"""Follow a run event by event, and leave in the middle.

Run it: python examples/stream.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os

from syncagent import Agent, tool
from syncagent.events import TextDelta, ToolFinished, ToolStarted
from syncagent.testing import ScriptedModel, call, say


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word}: a thing that is cancelled"


def main():
    model = os.environ.get("SYNCAGENT_MODEL") or ScriptedModel(
        [
            say("Let me see. ", call("look_up", {"word": "token"})),
            "A token is a thing that is cancelled. There is much more to say about it.",
        ]
    )
    agent = Agent(model, tools=[look_up])
    said = ""
    with agent.stream("What is a token?") as stream:  # leaving the block ends the run
        for event in stream:
            if isinstance(event, TextDelta):
                print(event.text, end="", flush=True)
                said += event.text
            elif isinstance(event, ToolStarted):
                print(f"\n[{event.name}({event.arguments}) ", end="")
            elif isinstance(event, ToolFinished):
                print(f"{event.outcome}]")
            if len(said) > 50:
                break  # enough
    print(f"\n{stream.result.summary}")


if __name__ == "__main__":
    main()
