"""An agent of your own in the terminal: Ctrl+C stops it, approvals are asked in place.

Run it: python examples/terminal_agent.py
or: echo "delete /tmp/a" | python examples/terminal_agent.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os

from syncagent import Agent, ToolContext, tool, tui
from syncagent.messages import Text, UserMessage
from syncagent.testing import ScriptedModel, call, say


@tool(requires_approval=True)
def delete(path: str) -> str:
    """Pretend to delete a file."""
    return f"{path} would be gone"


@tool(isolation="thread")
def count(ctx: ToolContext, to: int) -> str:
    """Count, one number a second."""
    for number in range(to):
        ctx.progress(f"{number} of {to}")
        ctx.sleep(1)
    return "counted"


def answer(messages):
    """Stand in for a model: do what the first word says."""
    last = messages[-1]
    if not isinstance(last, UserMessage):
        return say("That is done.")
    words = [block.text for block in last.content if isinstance(block, Text)][
        -1
    ].split()
    if words[0] == "delete":
        return say("I would like to.", call("delete", {"path": words[-1]}))
    if words[0] == "count":
        return say("One moment.", call("count", {"to": 30}))
    return say("Say 'delete /tmp/a' or 'count', and press Ctrl+C, ESC or Ctrl+B.")


@tui(while_busy="steer")
def talk() -> Agent:
    model = os.environ.get("SYNCAGENT_MODEL") or ScriptedModel(answer)
    return Agent(model, tools=[delete, count], name="Adam")


if __name__ == "__main__":
    messages = talk()
    print(f"The conversation has {len(messages)} messages.")
