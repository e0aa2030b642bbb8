"""Transcripts that are made valid to send."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.messages import MESSAGES

from syncagent.messages import (
    AssistantMessage,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.testing import complaints
from syncagent.transcript import Transcript
from syncagent.transcript.repair import NO_RESULT, SILENCE

HELLO = UserMessage.of("hello")
ANSWER = AssistantMessage((Text("hi"),))
CALLS = AssistantMessage((ToolCall("a", "f"), ToolCall("b", "g")), "tool_calls")
A, B = ToolResult("a", (Text("A"),), name="f"), ToolResult("b", (Text("B"),), name="g")
NO_B = ToolResult("b", (Text(NO_RESULT),), is_error=True, name="g")


def repaired(*messages):
    transcript = Transcript(messages)
    transcript.repair()
    assert transcript.validate() == []
    return transcript[:]


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [HELLO],
        [HELLO, ANSWER, HELLO],
        [HELLO, CALLS, ToolMessage((A, B))],
        [HELLO, CALLS, ToolMessage((A, B)), HELLO, ANSWER],
    ],
)
def test_what_is_right_stays(messages):
    """It is valid, and the very same afterwards."""
    assert Transcript(messages).validate() == []
    assert all(a is b for a, b in zip(repaired(*messages), messages, strict=True))


@pytest.mark.parametrize(
    ("messages", "expected", "problem"),
    [
        ([ANSWER], [UserMessage.of(SILENCE), ANSWER], "first message is not"),
        ([HELLO, CALLS], [HELLO, CALLS, ToolMessage((A, NO_B))], "'b' has no result"),
        (
            [HELLO, CALLS, ToolMessage((B, A, A))],
            [HELLO, CALLS, ToolMessage((A, B))],
            "two results of 'a'",
        ),
        (
            [HELLO, CALLS, ToolMessage((B,)), HELLO, ToolMessage((A,))],
            [HELLO, CALLS, ToolMessage((A, B)), HELLO],
            "not in a valid order",
        ),
        ([HELLO, ToolMessage((A,))], [HELLO], "has no call"),
        (
            [HELLO, HELLO, ANSWER],
            [UserMessage((Text("hello"), Text("hello"))), ANSWER],
            "not in a valid order",
        ),
        (
            [HELLO, ANSWER, ANSWER],
            [HELLO, AssistantMessage((Text("hi"), Text("hi")))],
            "second assistant message in a row",
        ),
        ([HELLO, AssistantMessage(())], [HELLO], "is empty"),
        (
            [HELLO, AssistantMessage((Text(" "), Text("hi"), Thinking("")))],
            [HELLO, ANSWER],
            "empty block",
        ),
        (
            [HELLO, AssistantMessage((*CALLS.content, CALLS.content[0]), "tool_calls")],
            [HELLO, CALLS, ToolMessage((A, NO_B))],
            "'a' twice",
        ),
    ],
)
def test_what_is_wrong_is_put_right(messages, expected, problem):
    """Promise 4, and the words say what it was."""
    if expected[-1:] == [ToolMessage((A, NO_B))]:
        no_a = ToolResult("a", (Text(NO_RESULT),), is_error=True, name="f")
        expected = [*expected[:-1], ToolMessage((no_a, NO_B))]
    assert repaired(*messages) == expected
    assert problem in "; ".join(Transcript(messages).validate())


@settings(max_examples=300, deadline=None)
@given(st.lists(MESSAGES, max_size=8), st.integers(0, 8))
@pytest.mark.slow
def test_any_messages_can_be_repaired(messages, cut):
    """Promise 4: it is valid then; the same when done twice, or bit by bit."""
    once = repaired(*messages)
    assert repaired(*once) == once
    assert (once == messages) == (Transcript(messages).validate() == [])
    growing = Transcript(messages[:cut])
    growing.repair()
    for message in messages[cut:]:
        growing.append(message)
    growing.repair()
    assert growing.validate() == []


@settings(max_examples=100, deadline=None)
@given(st.lists(MESSAGES, max_size=6))
def test_what_is_repaired_is_accepted_everywhere(messages):
    """Promise 4: by the strict rules of all four kinds of provider."""
    assert complaints(repaired(*messages)) == {}


def test_a_copy_goes_its_own_way():
    """What is added to one is not in the other."""
    transcript = Transcript([HELLO, ANSWER])
    transcript.encode("x", lambda turn: b"{}")
    copy = transcript.copy()
    copy.append(HELLO)
    assert (len(transcript), len(copy)) == (2, 3)
    copy.truncate(1)
    assert transcript[:] == [HELLO, ANSWER]
    assert b"".join(copy.encode("x", lambda turn: b"1")) == b"1"
