"""@tui: agents and chats of one's own in the terminal."""

import signal
import subprocess
import sys

import pytest
from console import BOUND, HERE, Console
from typed_tools import delete

from syncagent import Agent, ConfigurationError, llm_chat, tui
from syncagent.cli.tui import Terminal
from syncagent.testing import ScriptedModel, Send, Stall, call, say

WORDS = "Once upon a time there was a thread that waited for a token. " * 3
TARGETS = ["agent", "plain agent", "factory", "chat", "chat with more", "own"]


@pytest.fixture
def talk(server):
    """Return a function that opens a terminal around something."""
    consoles = []

    def begin(name):
        command = [sys.executable, "tui_script.py", name, server.base_url]
        consoles.append(Console(command=command))
        consoles[-1].wait_for_prompt()
        return consoles[-1]

    yield begin
    for console in consoles:
        console.close()


@pytest.mark.parametrize("name", TARGETS)
def test_it_is_talked_to_and_stopped(talk, server, name):
    """Ctrl+C cancels its run, the text so far is kept, and nothing is left behind."""
    server.add(say(WORDS, acts=[Send(12), Stall()]), "Well.")
    console = talk(name)
    console.enter("tell me")
    console.wait_for("Once upon")
    console.press("ctrl-c")
    console.wait_for("stopped; the text so far is kept")
    console.wait_for_prompt()
    server.wait_for_hang_up()
    console.enter("and then?")
    console.wait_for("Well.")
    console.wait_for_prompt()
    said = str(server.requests[-1].payload["messages"])
    assert "tell me" in said
    assert "Once upon" in said
    assert "and then?" in said
    console.press("ctrl-d")
    assert console.wait_for_end() == 0
    assert console.is_restored()
    assert "4 messages" in console.text


@pytest.mark.parametrize("name", ["agent", "factory", "chat", "chat with more"])
def test_it_asks_in_place(talk, server, name):
    """Tools of an agent, and of a chat."""
    server.add(say("May I?", call("delete", {"path": "/a"})), "Gone.")
    console = talk(name)
    console.enter("delete it")
    console.wait_for("[y]es  [n]o  [a]lways  [e]dit")
    console.enter("yes")
    console.wait_for("Gone.")


def test_what_a_chat_takes_beside_is_told(talk, server):
    """Arguments that are given to the terminal go with everything that is said."""
    server.add("Hello, Eve.")
    console = talk("chat with more")
    console.enter("hello")
    console.wait_for("Hello, Eve.")
    assert "Eve" in str(server.requests[-1].payload["messages"][-1])
    assert "politely" in str(server.requests[-1].payload["messages"][-1])
    console.enter("/tools")
    console.wait_for("delete (asks first)")


def test_a_function_of_ones_own_is_no_agent(talk):
    """What only agents have is said to be so."""
    console = talk("own")
    console.enter("/save x")
    console.wait_for("this chat is a function")


def test_a_signal_leaves_by_system_exit(talk):
    """Who has put it into a program ends with the code of the signal."""
    console = talk("agent")
    console.process.send_signal(signal.SIGTERM)
    assert console.wait_for_end() == 143
    assert console.is_restored()


def test_without_a_terminal(server):
    """Lines in, answers out."""
    server.add("Hello.")
    ended = subprocess.run(
        [sys.executable, "tui_script.py", "chat", server.base_url],
        input="hi\n",
        capture_output=True,
        text=True,
        timeout=BOUND,
        cwd=HERE,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "Hello.\n2 messages\n")


def test_what_one_cannot_talk_to_is_refused():
    """At once, in words."""
    with pytest.raises(ConfigurationError, match="takes an agent"):
        tui("no agent")
    with pytest.raises(ConfigurationError, match="while_busy must be one of"):
        tui(Agent(ScriptedModel([])), while_busy="never")
    with pytest.raises(ConfigurationError, match="must return an agent"):
        tui(lambda: 5)()
    with pytest.raises(ConfigurationError, match="takes no arguments"):
        tui(Agent(ScriptedModel([])))("hello")
    with pytest.raises(ConfigurationError, match="parameter cancel"):
        tui(lambda message, history: iter(()))()

    @tui
    @llm_chat(ScriptedModel([]), tools=[delete])
    def talk(message: str, user: str, history: list) -> None:
        """Talk."""

    assert isinstance(talk, Terminal)
    assert talk.__doc__ == "Talk."
    with pytest.raises(ConfigurationError, match="user"):
        talk()
    with pytest.raises(ConfigurationError, match="by name"):
        talk("Eve")
