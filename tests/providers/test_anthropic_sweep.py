"""The sweep over Claude: every point of a run that thinks and calls tools."""

import hashlib
import json

import pytest
from support.covering import each_value
from support.two_rounds import AGAIN, LAST

from syncagent import Agent, CancelPolicy, tool
from syncagent.messages import Text, Thinking
from syncagent.models import Anthropic
from syncagent.testing import FakeServer, call, cancel_everywhere, say
from syncagent.transport import close_idle

pytestmark = pytest.mark.slow


@tool
def noop() -> str:
    """Do nothing."""
    return "nothing"


class Signer:
    """A provider that binds thinking to all that was said before it.

    It signs its thinking with a digest of the tools, the instructions, and all blocks
    before, as the provider does since 2026-08-31, and refuses a block that comes back
    after anything else.
    """

    def __init__(self):
        self.refused = []
        self.seen = 0

    def __call__(self, request):
        payload = request.payload
        blocks = [
            (message["role"], {k: v for k, v in block.items() if k != "cache_control"})
            for message in payload["messages"]
            for block in message["content"]
        ]
        start = [payload.get("system"), payload.get("tools")]
        for number, (_, block) in enumerate(blocks):
            if block["type"] == "thinking":
                self.seen += 1
                if block["signature"] != sign(start, blocks[:number]):
                    self.refused.append(payload["messages"])
        thinking = Thinking("Hm.", sign(start, blocks))
        last = payload["messages"][-1]["content"]
        if last[0]["type"] == "tool_result" or last[-1].get("text") == AGAIN:
            return say(thinking, LAST)
        return say(thinking, "Let me see.", call("noop"), call("noop"))


def sign(*before):
    return hashlib.sha256(json.dumps(before).encode()).hexdigest()


@each_value(
    "model, partial_text, way",
    ["claude-sonnet-5-5", "claude-opus-4-8", "claude-sonnet-4-5"],
    ["keep", "discard", "rollback"],
    ["inside", "thread", "meanwhile"],
)
def test_every_point_of_a_run_that_thinks(model, partial_text, way):
    """Promise 4: the conversation goes on with the same model, and keeps its thinking.

    Nothing before a block of thinking changes, wherever the run was cancelled.
    """
    signer = Signer()
    with FakeServer(signer) as server:

        def make():
            url = server.url_of("anthropic")
            claude = Anthropic(model, base_url=url, api_key="any", effort="high")
            policy = CancelPolicy(partial_text=partial_text)
            return Agent(claude, tools=[noop], cancel_policy=policy)

        swept = cancel_everywhere(make, "Do it.", way=way)
        close_idle()
    assert {"headers", "stream", "tool"} <= swept.phases
    assert signer.seen
    assert signer.refused == []


def test_thinking_goes_back_in_the_next_run():
    """It is signed for what comes before it, and that is as it was."""
    signer = Signer()
    with FakeServer(signer) as server:
        url = server.url_of("anthropic")
        claude = Anthropic("claude-opus-5-5", base_url=url, api_key="any")
        agent = Agent(claude, tools=[noop])
        agent.run("Do it.")
        agent.run(AGAIN)
        close_idle()
    assert signer.refused == []
    assert signer.seen == 1 + 2
    assert isinstance(agent.messages[-1].content[-1], Text)
