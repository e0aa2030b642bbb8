"""What tests of questions share: tools that are asked about, and a look at results."""

from support.agents import check_usable, model, outcomes
from support.threads import meanwhile
from syncagent import Agent, ToolContext, tool
from syncagent.messages import Json, Text, ToolMessage
from syncagent.testing import call, say

__all__ = [
    "DO",
    "KEY",
    "OPEN",
    "WONDER",
    "asked_in_process",
    "asking",
    "check_usable",
    "do",
    "doing",
    "meanwhile",
    "model",
    "open_door",
    "outcomes",
    "said_to_model",
    "the_one",
    "wonder",
]

#: What no text, event, log or state may have in it.
KEY = "sesame-open-4711"


@tool(requires_approval=True)
def do(what: str) -> str:
    """Do something."""
    return f"did {what}"


@tool(requires_auth="door")
def open_door(ctx: ToolContext) -> str:
    """Open the door."""
    return f"opened with {len(ctx.credentials)} characters"


@tool
def wonder(ctx: ToolContext) -> str:
    """Ask the user two things."""
    first = ctx.ask("What?")
    return f"{first}, {ctx.ask('Why?')}"


def asked_in_process(ctx: ToolContext) -> str:
    """Ask the user two things, from a process that can import this."""
    first = ctx.ask("What?")
    return f"{first}, {ctx.ask('Why?')}"


#: Rounds with one call each.
DO = say(call("do", {"what": "it"}))
OPEN = say(call("open_door"))
WONDER = say(call("wonder"))


def doing(*calls):
    """Return a round that does several things, each a string or arguments."""
    made = [{"what": each} if isinstance(each, str) else each for each in calls]
    return say(*(call("do", each, f"c{n}") for n, each in enumerate(made)))


def asking(*script, tools=(do, open_door, wonder), **settings):
    """Return an agent with all tools, whose model says this."""
    return Agent(model(*script), tools=tools, **settings)


def the_one(agent):
    """Return the one interrupt that an agent, driver or handle waits with."""
    found = getattr(agent, "pending", None)
    [asked] = agent.interrupts if found is None else found
    return asked


def said_to_model(messages):
    """Return what the model was told about its calls, as words."""
    blocks = [
        block
        for message in messages
        if isinstance(message, ToolMessage)
        for result in message.content
        for block in result.content
    ]
    words = [block.text for block in blocks if isinstance(block, Text)]
    return words + [str(block.value) for block in blocks if isinstance(block, Json)]
