"""A workshop for agents: tools, and a model that needs all of them."""

import msgspec

from syncagent import Agent, CancelPolicy, ToolContext, tool
from syncagent.messages import Text, Thinking, ToolMessage, UserMessage
from syncagent.models import Anthropic, Gemini, OpenAIChat, OpenAIResponses
from syncagent.testing import ScriptedModel, call, say

CLASSES = [OpenAIChat, OpenAIResponses, Anthropic, Gemini]
#: What the model says after the rounds, and whenever it is asked again.
LAST = "All is done."
AGAIN = "Go on."


@tool
def look(what: str, ctx: ToolContext) -> str:
    """Look at something, which takes a moment."""
    ctx.sleep(0.0005)
    return f"seen: {what}"


@tool(requires_approval=True)
def change(what: str) -> dict:
    """Change something."""
    return {"changed": what}


#: Two rounds, the second of which has to be approved.
FIRST = say(
    Thinking("What is there?", "signed"),
    "Let me see.",
    call("look", {"what": "here"}, "look_1"),
    call("look", {"what": "there"}, "look_2"),
)
SECOND = say(
    "Now I know.",
    call("change", {"what": "it"}, "change_1"),
    call("look", {"what": "again"}, "look_3"),
)


def reply(messages):
    """Answer by what was said, so that any number of runs can be served."""
    asked = max(n for n, m in enumerate(messages) if is_prompt(m))
    if messages[asked].content[-1].text == AGAIN:
        return LAST
    rounds = sum(isinstance(m, ToolMessage) for m in messages[asked:])
    return (FIRST, SECOND, LAST)[min(rounds, 2)]


def is_prompt(message):
    return isinstance(message, UserMessage) and isinstance(message.content[-1], Text)


def make_agent(model=None, **settings):
    """Return an agent that has all it needs for two rounds."""
    settings = {
        "tools": [look, change],
        "approve": lambda request: True,
        "cancel_policy": CancelPolicy(),
        **settings,
    }
    return Agent(model or ScriptedModel(reply, piece=12), **settings)


def on_server(kind, server, **settings):
    """Return a model of a class that talks to a fake server."""
    settings = {"retries": 0, **settings}
    return kind("fake", base_url=server.base_url, api_key="any", **settings)


def words(message):
    """Return all words of a message, of whoever."""
    return [block.text for block in message.content if isinstance(block, Text)]


def told(message):
    """Return what the results of a tool message say."""
    return [
        block.text if isinstance(block, Text) else msgspec.json.encode(block.value)
        for result in message.content
        for block in result.content
    ]
