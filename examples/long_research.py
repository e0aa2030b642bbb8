"""Research for hundreds of rounds in a small context window, with compaction.

Run it: python examples/long_research.py
With a real model: Agent("openai:gpt-6-luna", ...), and Summarize("a-cheap:model").
"""

from syncagent import Agent, ClearResults, Summarize, tool
from syncagent.compaction.sizes import estimate
from syncagent.events import Compacted
from syncagent.exceptions import ContextTooLong
from syncagent.messages import ToolMessage
from syncagent.testing import ScriptedModel, call, say
from syncagent.usage import Usage

WINDOW = 16_000
PAGES = 300
read = []


@tool
def read_page(number: int) -> str:
    """Read a page of the archive."""
    read.append(number)
    return f"Page {number}. " + "Something happened in the village. " * 40


def research(messages):
    """Respond as a model would that reads page after page."""
    size = estimate(messages)
    if size > WINDOW:
        return ContextTooLong("the prompt is too long", status=400)
    if not isinstance(messages[-1], ToolMessage) and len(messages) == 1 and read:
        return say(f"Pages 1 to {len(read)} are read.", usage=Usage(size, 20))
    if len(read) == PAGES:
        return say("The village had three mayors.", usage=Usage(size, 20))
    return say(call("read_page", {"number": len(read) + 1}), usage=Usage(size, 20))


def main():
    agent = Agent(
        ScriptedModel(research, context_window=WINDOW),
        tools=[read_page],
        compaction=[ClearResults(keep=3), Summarize(keep=4)],
    )
    for event in agent.stream("Who governed the village? Read the whole archive."):
        if isinstance(event, Compacted):
            steps = " and ".join(event.steps)
            print(f"page {len(read)}: {event.before} -> {event.after} tokens ({steps})")
    print(agent.messages[-1].text)
    print(f"{len(read)} pages, {len(set(read))} different ones;", end=" ")
    print(f"{len(agent.messages)} messages are left")


if __name__ == "__main__":
    main()
