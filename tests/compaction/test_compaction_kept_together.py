"""Responses stay whole: thinking, signatures, reasoning items, calls, results."""

import random

import pytest

from syncagent.compaction import ClearResults, ShortenResults, Summarize
from syncagent.compaction.rounds import rounds
from syncagent.compaction.sizes import estimate
from syncagent.messages import (
    AssistantMessage,
    Image,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.testing import complaints
from syncagent.transcript.repair import repaired


class FakeRoom:
    """A room of a given size, whose model writes a short record."""

    window, token = 4000, None

    def __init__(self, target, start=0):
        self.target, self.start = target, start

    def size(self, messages):
        return estimate(messages)

    def ask(self, prompt, **settings):
        return "A record."


def conversation(randomly, provider):
    """Return a valid conversation of several runs, and the place of the last one."""
    messages, number, start = [], 0, 0
    for run in range(randomly.randint(1, 3)):
        start = len(messages)
        image = [Image(b"p")] if randomly.random() < 0.3 else []
        messages.append(UserMessage.of([f"Wish {run}. " * 9, *image]))
        for _ in range(randomly.randint(0, 7)):
            calls = []
            for _ in range(randomly.randint(1, 3)):
                number += 1
                calls.append(ToolCall(f"c{number}", "look", signature="sig"))
            thinking = (Thinking("Hm.", "signed"),)
            blocks = (*thinking * randomly.randint(0, 1), *calls)
            if provider == "openai":
                item = {"type": "reasoning", "id": f"r{number}", "summary": []}
                blocks = (ProviderBlock(provider, item), *calls)
            messages.append(AssistantMessage(blocks, "tool_calls", "", provider))
            results = [ToolResult(each.call_id, "seen " * 99) for each in calls]
            messages.append(ToolMessage(tuple(results)))
            if randomly.random() < 0.2:
                messages.append(UserMessage.of("By the way."))
        end = AssistantMessage((Text("Done."),), provider=provider)
        messages.append(end)
    return messages[: randomly.choice([-1, len(messages)])], start


@pytest.mark.parametrize("provider", ["anthropic", "openai", "gemini", "deepseek"])
def test_every_compaction_is_valid_for_every_provider(provider):
    """And a response in it is one that was there, block for block."""
    count = 0
    for seed in range(60):
        randomly = random.Random(f"{provider} {seed}")
        messages, start = conversation(randomly, provider)
        room = FakeRoom(randomly.choice([50, 300, 1000]), start)
        keep = randomly.randint(1, 4)
        for step in (ClearResults(keep), Summarize(keep=keep), ShortenResults(50)):
            made = step.compact(messages, room)
            if made is None:
                continue
            count += 1
            assert repaired(made) == list(made)  # nothing had to be cured
            assert complaints(made) == {}
            responses = [m for m in made if isinstance(m, AssistantMessage)]
            assert all(any(m is old for old in messages) for m in responses)
            assert estimate(made) < estimate(messages) + 300  # with the record
    assert count > 60


def test_a_paused_response_stays_with_its_rest():
    """No cut between the two."""
    block = ProviderBlock("anthropic", {"type": "server_tool_use"})
    paused = AssistantMessage((block,), "pause", provider="anthropic")
    rest = AssistantMessage((Text("Found."),), provider="anthropic")
    hello = UserMessage.of("Hi.")
    assert rounds([hello, paused, rest, hello, rest]) == [1, 4]
    assert rounds([rest, hello, rest]) == [2]
    assert rounds([]) == []


def test_a_short_conversation_is_left_alone():
    """There is nothing to remove before the second response."""
    messages = [UserMessage.of("Hi."), AssistantMessage((Text("Hi."),))]
    for step in (ClearResults(0), Summarize(keep=1), ShortenResults()):
        assert step.compact(messages, FakeRoom(1)) is None
        assert step.compact([], FakeRoom(1)) is None
