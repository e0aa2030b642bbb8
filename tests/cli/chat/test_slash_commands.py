"""What begins with a slash."""

import json
import os

import pytest
from typed_tools import delete

from syncagent import Agent
from syncagent.testing import ScriptedModel, Stall, call, say


@pytest.fixture
def console(start, server):
    """A conversation of one exchange."""
    server.add("Hello to you.")
    console = start("--system", "Be brief.")
    console.enter("Good day")
    console.wait_for("Hello to you.")
    console.wait_for_prompt()
    return console


def test_the_small_ones(console):
    """/help, /model, /tools, /usage, /runs, and what there is not."""
    for line, wanted in {
        "/help": "/runs [N [stop]]",
        "/model": "vllm:test",
        "/tools": "delete (asks first): Delete a file",
        "/usage": "15 tokens (10 in, ",
        "/runs": "no runs in the background",
        "/background": "no run to move",
        "/nonsense": "unknown command /nonsense; /help",
        "/load": "/load needs a file name",
        "/load /no/such/file": "No such file",
        "/save /no/such/folder/x": "No such file",
        "/model nobody:x": "nobody",
    }.items():
        console.enter(line)
        console.wait_for(wanted)
        console.wait_for_prompt()
    assert "Traceback" not in console.text


def test_odd_names_of_files(console, tmp_path):
    """They are refused in a line, and nothing is waited for: the chat goes on."""
    os.mkfifo(tmp_path / "pipe")
    for line, wanted in {
        "/load ~nobody-of-that-name/x": "/load ~nobody-of-that-name/x: Could not",
        "/save ~nobody-of-that-name/x": "/save ~nobody-of-that-name/x: Could not",
        "/load /dev": "/dev is not a regular file",
        f"/load {tmp_path}/pipe": "pipe is not a regular file",
        "/usage": "15 tokens",
    }.items():
        console.enter(line)
        console.wait_for(wanted)
        console.wait_for_prompt()


def test_a_file_that_is_not_there(console):
    """The error is a sentence, without the number of the system's error."""
    console.enter("/load missing.json")
    console.wait_for("error: missing.json: No such file or directory")
    assert "Errno" not in console.text


def test_tab_completes(console):
    """As far as it is clear."""
    console.type("/he\t")
    console.wait_for(lambda: console.input == "> /help")
    console.press("ctrl-u")
    console.type("/ru\t")
    console.wait_for(lambda: console.input == "> /runs")


def test_saved_and_loaded(console, server, start, tmp_path):
    """The conversation goes on in another process, and after another one."""
    path = tmp_path / "talk.json"
    console.enter(f"/save {path}")
    console.wait_for("saved to")
    assert path.stat().st_mode & 0o077 == 0
    assert json.loads(path.read_text())["format"] == "syncagent.agent"
    console.enter("/exit")
    assert console.wait_for_end() == 0
    server.add("I do.", "I still do.")
    other = start("--load", str(path))
    other.wait_for("continuing a conversation of 2 messages")
    for answer in ("I do.", "I still do."):
        other.enter("Do you remember?")
        other.wait_for(answer)
        other.wait_for_prompt()
        messages = server.requests[-1].payload["messages"]
        assert [each["content"] for each in messages][-3:] == [
            *("Good day", "Hello to you.", "Do you remember?"),
        ]
        other.enter(f"/load {path}")
        other.wait_for_prompt()


def test_what_is_no_conversation_is_not_overwritten(console, tmp_path):
    """Nor is it loaded."""
    path = tmp_path / "notes.txt"
    path.write_text("my notes")
    console.enter(f"/save {path}")
    console.wait_for("is not a saved conversation")
    console.enter(f"/load {path}")
    console.wait_for("the state cannot be read")
    assert path.read_text() == "my notes"


def test_a_question_is_open_again_when_it_is_loaded(start, server, tmp_path):
    """What was saved while it waited is asked again."""
    script = [say("May I?", call("delete", {"path": "/a"}))]
    agent = Agent(ScriptedModel(script), tools=[delete])
    assert agent.run("delete it").interrupts
    path = tmp_path / "talk.json"
    path.write_text(agent.save())
    server.add("Gone.")
    console = start("--load", str(path), is_waited_for=False)
    console.wait_for("[y]es  [n]o  [a]lways  [e]dit")
    console.enter("y")
    console.wait_for("Gone.")
    assert server.requests[-1].payload["messages"][-1]["content"] == "deleted /a"


def test_another_model(console, server):
    """The conversation goes on with it; the instructions, too."""
    console.enter("/model vllm:other")
    console.wait_for("the model is now vllm:other")
    server.add("I am another.")
    console.enter("Who are you?")
    console.wait_for("I am another.")
    payload = server.requests[-1].payload
    assert payload["model"] == "other"
    said = [each["content"] for each in payload["messages"]]
    assert said == ["Be brief.", "Good day", "Hello to you.", "Who are you?"]


def test_some_have_to_wait(console, server):
    """While it works; others do not."""
    server.add(say("never", acts=[Stall()]))
    console.enter("go")
    console.wait_for("waiting for the model")
    console.enter("/model vllm:other")
    console.wait_for("/model NAME needs an idle agent")
    console.enter("/usage")
    console.wait_for("15 tokens (")
    console.wait_for(console.is_busy)


def test_two_slashes_are_one(console, server):
    """What begins with a slash can be said."""
    server.add("A folder.")
    console.enter("//etc is what?")
    console.wait_for("A folder.")
    assert server.requests[-1].payload["messages"][-1]["content"] == "/etc is what?"


def test_what_it_costs_is_shown(start, server):
    """Tokens and dollars stand after an answer, and in /usage, if a price is known."""
    server.add("Hello.")
    console = start(
        *("--model", "openai-chat:gpt-6-sol"),
        OPENAI_BASE_URL=server.base_url,
        OPENAI_API_KEY="none",
    )
    console.enter("hi")
    console.wait_for("15 tokens, $0.0001)")
    console.wait_for_prompt()
    console.enter("/usage")
    console.wait_for("15 tokens, $0.0001 (10 in, ")


def test_stop_one_tool(start, server):
    """/stop ends the tool that runs, and the model goes on without it."""
    server.add(say(call("wait"), call("nap", {"seconds": 0})), "Without it, then.")
    console = start()
    console.enter("/stop")
    console.wait_for("no tool is running; Ctrl+C stops the run")
    console.enter("Wait for me")
    console.wait_for("wait()")
    console.enter("/stop nap")
    console.wait_for("no tool nap is running")
    console.enter("/stop wait")
    console.wait_for("Without it, then.")
    console.wait_for_prompt()
    sent = json.dumps(server.requests[-1].payload)
    assert "the user stopped this call while it ran" in sent
    assert "rested" in sent
