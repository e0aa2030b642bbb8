"""Cancel your own agent at every point where it looks or waits, in a test.

Run it: python examples/cancel_everywhere.py
With a real model: do not; it is run dozens of times. The script is the point.
"""

from collections import Counter

from syncagent import Agent, ToolContext, tool
from syncagent.messages import ToolMessage
from syncagent.testing import ScriptedModel, call, cancel_everywhere, say


@tool
def fetch(page: int, ctx: ToolContext) -> str:
    """Fetch a page."""
    ctx.sleep(0.001)
    return f"page {page}"


def answer(messages):
    """Call the tool once, and then be done, however often one is asked."""
    if isinstance(messages[-1], ToolMessage) or len(messages) > 1:
        return "That is all."
    return say(
        "Let me see.", call("fetch", {"page": 1}, "a"), call("fetch", {"page": 2}, "b")
    )


def make_agent():
    return Agent(ScriptedModel(answer), tools=[fetch], parallel_tools=2)


def test_my_agent_can_be_stopped_anywhere():
    for way in ("inside", "thread", "meanwhile"):
        sweep = cancel_everywhere(make_agent, "Read it.", way=way)
        phases = Counter(point.phase for point in sweep.points)
        print(f"{way}: {len(sweep.points)} points, {dict(phases)}")


if __name__ == "__main__":
    test_my_agent_can_be_stopped_anywhere()
