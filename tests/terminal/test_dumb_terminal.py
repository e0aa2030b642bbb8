"""A terminal that can do nothing but show lines."""

import pytest
from console import chat

from syncagent.testing import Send, Stall, call, say


@pytest.fixture
def console(server):
    """A conversation in one."""
    with chat(
        *("--model", "vllm:test", "--tools", "typed_tools:ALL"),
        VLLM_BASE_URL=server.base_url,
        VLLM_API_KEY="none",
        TERM="dumb",
    ) as console:
        console.wait_for(lambda: console.input == "> ")
        yield console


def test_the_prompt_comes_back(console, server):
    """After an answer, after one that was stopped, and after a command."""
    server.add("Hello.", say("Once upon a time " * 9, acts=[Send(12), Stall()]))
    console.enter("hi")
    console.wait_for("Hello.")
    console.wait_for(lambda: console.input == "> ")
    console.enter("a story")
    console.wait_for("Once upon")
    console.press("ctrl-c")
    console.wait_for("(stopped; what was said is kept")
    console.wait_for(lambda: console.input == "> ")
    console.enter("/nonsense")
    console.wait_for("there is no /nonsense")
    console.wait_for(lambda: console.input == "> ")
    console.press("ctrl-c")
    console.wait_for("(Ctrl+C again to leave)")
    console.press("ctrl-c")
    assert console.wait_for_end() == 0
    assert "\x1b" not in console.raw.decode()


def test_each_question_has_its_words(console, server):
    """Also the second time, and for arguments that are changed."""
    server.add(say("May I?", call("delete", {"path": "/a"})), "Gone.")
    console.enter("delete it")
    console.wait_for(lambda: console.input == "yes, no, always, edit? ")
    console.enter("perhaps")
    console.wait_for("yes (y), no (n)")
    console.wait_for(lambda: console.input == "yes, no, always, edit? ")
    console.enter("e")
    console.wait_for(lambda: console.input == "arguments: ")
    console.enter('{"path": "/b"}')
    console.wait_for("Gone.")
    console.wait_for(lambda: console.input == "> ")
    assert server.requests[-1].payload["messages"][-1]["content"] == "deleted /b"
