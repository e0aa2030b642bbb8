"""Short texts of values, for a REPL, and Markdown, for a notebook."""

from dataclasses import dataclass

import pytest

from syncagent import Agent, tool
from syncagent.events import RunFinished, TextDelta, ToolStarted, TurnFinished
from syncagent.interrupts import ApprovalRequest
from syncagent.messages import (
    AssistantMessage,
    Image,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.result import Cancellation, RunResult
from syncagent.testing import ScriptedModel, call, say
from syncagent.transcript import Transcript
from syncagent.transcript.markdown import fenced, safe_markdown
from syncagent.usage import Usage

LONG_TEXT = "word " * 5000


@dataclass
class Person:
    name: str


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return "21"


def result(**fields):
    given = {"text": "It is 21.", "stop_reason": "end_turn", "run_id": "x"}
    return RunResult(**{**given, "messages": (), **fields})


def test_the_result_of_a_run():
    """What a user sees who forgets to ask for the text."""
    script = [say("Let me look.", call("weather", {"city": "Oslo"})), "It is 21."]
    agent = Agent(ScriptedModel(script), tools=[weather], name="cook")
    found = agent.run("How warm is it?")
    assert (
        repr(found) == "<RunResult end_turn, 2 turns, 1 tool, 30 tokens: 'It is 21.'>"
    )
    assert found.summary == "end_turn, 2 turns, 1 tool, 30 tokens"
    assert "cook: " in repr(agent)
    assert repr(agent).endswith(", 1 tool, 4 messages>")
    assert repr(Transcript(found.messages[:1])) == "<Transcript of 1 message>"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"output": 7}, "<RunResult end_turn: 7>"),
        ({"output": Person("Anna")}, "<RunResult end_turn: Person(name='Anna')>"),
        (
            {
                "stop_reason": "cancelled",
                "turns": 1,
                "cancellation": Cancellation("why", "user", "stream", 0.1),
            },
            "<RunResult cancelled by user in stream, 1 turn: 'It is 21.'>",
        ),
        (
            {
                "text": "",
                "stop_reason": "interrupt",
                "interrupts": (ApprovalRequest("1", "1", "x", {}),),
            },
            "<RunResult interrupt, 1 question: ''>",
        ),
    ],
)
def test_other_results(fields, expected):
    """The output, who cancelled, and open questions."""
    assert repr(result(**fields)) == expected


def test_nothing_is_long():
    """A REPL shows a line or two, whatever there is."""
    usage = Usage(input_tokens=3)
    said = AssistantMessage((Text(LONG_TEXT), ToolCall("1", "f", LONG_TEXT)))
    values = [
        *(said, UserMessage.of(LONG_TEXT), UserMessage.of(Image(b"x" * 10_000))),
        ToolMessage((ToolResult("1", (Text(LONG_TEXT),), name="f"),)),
        *(result(text=LONG_TEXT, messages=(said,) * 100), result(output=LONG_TEXT)),
        *(TextDelta(LONG_TEXT), TurnFinished(said, usage)),
        ToolStarted("1", "f", {"text": LONG_TEXT}),
        RunFinished(result(text=LONG_TEXT)),
    ]
    for value in values:
        assert len(repr(value)) < 500, type(value)


def test_messages_say_what_is_in_them():
    """Who said what, in one line each."""
    assert repr(UserMessage.of("Hi.")) == "<UserMessage: 'Hi.'>"
    cut = AssistantMessage((Text("Well"),), is_cut=True)
    assert repr(cut) == "<AssistantMessage: 'Well', cut off>"
    asked = AssistantMessage((ToolCall("1", "weather", '{"city":"Oslo"}'),))
    assert repr(asked) == '<AssistantMessage: weather({"city":"Oslo"})>'
    told = ToolMessage((ToolResult("1", (Text("21"),), name="weather"),))
    assert repr(told) == "<ToolMessage: weather -> '21'>"
    assert "<3 bytes>" in repr(UserMessage.of(Image(b"abc")))


def test_events_show_what_is_not_usual():
    """And as Python that makes them, if they are short."""
    assert repr(TextDelta("a")) == "TextDelta(text='a')"
    assert eval(repr(ToolStarted("1", "f", {"a": 1}))) == ToolStarted(
        "1", "f", {"a": 1}
    )
    assert repr(Usage(input_tokens=3)) == "Usage(input_tokens=3)"


def test_markdown_of_results():
    """The text as the model wrote it, or the value, and what it took."""
    assert result()._repr_markdown_() == "It is 21.\n\n*end_turn*"
    value = result(output=Person("Anna"))._repr_markdown_()
    assert value == "```\nPerson(name='Anna')\n```\n\n*end_turn*"


def test_markdown_of_a_conversation():
    """An agent and a transcript show who said what."""
    agent = Agent(ScriptedModel(["*Hello.*"]))
    assert agent._repr_markdown_().startswith("`<Agent")
    agent.run("Hi.")
    expected = "**User**\n\nHi.\n\n**Assistant**\n\n*Hello.*"
    assert agent._repr_markdown_() == expected
    assert Transcript(agent.messages)._repr_markdown_() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("![p](http://x/?secret)", "!\\[p](http://x/?secret)"),
        ("<img src=x> a < b", "&lt;img src=x> a &lt; b"),
        ("`a < b` and `![x](y)`", "`a < b` and `![x](y)`"),
        ("```py\na < b\n```\n<b>", "```py\na < b\n```\n&lt;b>"),
        ("```\nnever closed <b>", "```\nnever closed <b>"),
        ("a ` lonely <b>", "a ` lonely &lt;b>"),
    ],
)
def test_no_html_and_no_pictures(text, expected):
    """Code stays as it is."""
    assert safe_markdown(text) == expected


def test_code_cannot_end_its_fence():
    """A result of a tool is a stranger's text."""
    assert fenced("a\n```\n<b>") == "````\na\n```\n<b>\n````"
