"""What is sent to Anthropic's Messages in the middle of tool calls."""

import pytest
from anthropic_talk import DIALECT, HELLO, OLD, ours, payload

from syncagent.exceptions import ConfigurationError
from syncagent.messages import (
    AssistantMessage,
    Json,
    RedactedThinking,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
)
from syncagent.options import Options, ToolSpec

ADD = ToolSpec("add")
CALL = ToolCall("1", "add")
AGAIN = ToolCall("2", "add")
SIGNED = Thinking("t", "sig")


def loop(*answers):
    """Return a conversation in which each of *answers* has its results."""
    yield HELLO
    for answer in answers:
        yield answer
        calls = answer.tool_calls
        yield ToolMessage(tuple(ToolResult(call.call_id) for call in calls))


#: Calls whose turn did not begin with thinking of this provider.
BEGUN_WITHOUT = [
    [AssistantMessage((SIGNED, CALL), provider="gemini")],
    [ours(Thinking("cut"), CALL)],
    [ours(Text("I add."), SIGNED, CALL)],
    [ours(Text("cut"), is_cut=True), ours(SIGNED, CALL)],
    [ours(CALL), ours(AGAIN)],
    [ours(CALL), ours(SIGNED, AGAIN)],
]


@pytest.mark.parametrize("answers", BEGUN_WITHOUT)
def test_calls_that_did_not_begin_with_thinking_go_on_without(answers):
    """The provider would reject it; all else is as it would be."""
    sent = payload(*loop(*answers), tools=[ADD], effort="low", model=OLD)
    assert "thinking" not in sent
    thinking = payload(tools=[ADD], effort="low", model=OLD)
    del thinking["thinking"], thinking["messages"], sent["messages"]
    assert sent == thinking


@pytest.mark.parametrize("answers", BEGUN_WITHOUT)
def test_a_model_that_decides_itself_thinks_at_every_step(answers):
    """Its turns need not begin with thinking."""
    sent = payload(*loop(*answers), tools=[ADD], effort="low")
    assert sent["thinking"]["type"] == "adaptive"


@pytest.mark.parametrize(
    "messages",
    [
        [HELLO],
        [*loop(ours(SIGNED, CALL))],
        [*loop(ours(RedactedThinking("r"), CALL))],
        [*loop(ours(SIGNED, CALL), ours(AGAIN))],  # it thinks once, before the first
        [*loop(ours(CALL), ours(Text("Done."))), HELLO],
        [*loop(ours(CALL), ours(Text("Done."))), *loop(ours(SIGNED, AGAIN))],
    ],
)
def test_thinking_goes_on_where_it_may(messages):
    """Calls that began with it, or that an answer has followed, are no obstacle."""
    assert payload(*messages, tools=[ADD], effort="low", model=OLD)["thinking"]


def test_thinking_that_is_left_out_is_checked_all_the_same():
    """Options that are wrong together are so at every step."""
    messages = [*loop(ours(CALL))]
    options = Options(effort="low", temperature=0.5)
    with pytest.raises(ConfigurationError, match="temperature"):
        DIALECT.build_payload(OLD, messages, [ADD], options)


@pytest.mark.parametrize(
    ("block", "where"),
    [
        (Text("\ud800"), r"user message.*content\[0\].content\[1\].text"),
        (Json({"a": [1, object()]}), r"Json block.*a\[1\].*object"),
        (Json({"a": "\ud800"}), "Json block.*: a is of type str"),
    ],
)
def test_what_no_json_can_be_made_of(block, where):
    """It is an error that says where it is."""
    result = ToolMessage((ToolResult("1", (Text("a"), block)),))
    with pytest.raises(ConfigurationError, match=where):
        payload(HELLO, ours(CALL), result)


def test_a_value_that_holds_itself():
    """It is an error, too, and found in the end."""
    endless = []
    endless.append(endless)
    result = ToolMessage((ToolResult("1", (Json(endless),)),))
    with pytest.raises(ConfigurationError, match="Json block"):
        payload(HELLO, ours(CALL), result)
