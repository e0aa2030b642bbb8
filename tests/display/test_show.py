"""``show()``: a run as it goes on, in a plain terminal and in a real notebook."""

import textwrap
import threading

import pytest
from support.threads import LONG

from syncagent import Agent, ToolContext, show, tool
from syncagent.exceptions import ConfigurationError, RateLimited
from syncagent.testing import ScriptedModel, call, say


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"21 in {city}"


def agent():
    script = [say("Let me look.", call("weather", {"city": "Oslo"})), "It is 21."]
    return Agent(ScriptedModel(script), tools=[weather])


def test_text_comes_as_it_is_written(capsys):
    """With a line for each tool, and one for the end."""
    stream = agent().stream("How warm is it?")
    show(stream)
    assert capsys.readouterr().out == (
        "Let me look.\n[weather(city='Oslo')]\n[weather: done]\nIt is 21.\n"
        "[end_turn, 2 turns, 1 tool, 30 tokens]\n"
    )
    assert stream.result.text == "It is 21."


def test_nothing_waits_for_the_end(capsys):
    """What was said is there while the model is silent; a cancel ends it at once."""
    is_waiting = threading.Event()

    @tool
    def wait(ctx: ToolContext) -> str:
        """Wait for ever."""
        is_waiting.set()
        ctx.sleep(LONG * 10)

    live = Agent(ScriptedModel([say("Well.", call("wait"))]), tools=[wait])
    thread = threading.Thread(target=lambda: show(live.stream("Hi.")))
    thread.start()
    assert is_waiting.wait(LONG)
    assert capsys.readouterr().out == "Well.\n[wait()]\n"
    assert live.cancel("enough")
    thread.join(LONG)
    assert not thread.is_alive()
    assert "[cancelled by user in tool, 1 turn" in capsys.readouterr().out


def test_a_handle_is_followed(capsys):
    """Also one that waits for more input afterwards."""
    with agent().start("How warm is it?", keep_alive=True) as handle:
        show(handle)
        assert not handle.done()
    assert capsys.readouterr().out.endswith("[end_turn, 2 turns, 1 tool, 30 tokens]\n")


@pytest.mark.parametrize("keep_alive", [False, True])
def test_errors_of_the_run_are_raised(keep_alive):
    """Of a stream as of a handle."""
    with pytest.raises(RateLimited):
        show(Agent(ScriptedModel([RateLimited("no")])).stream("Hi."))
    model = ScriptedModel([RateLimited("no")])
    with (
        Agent(model).start("Hi.", keep_alive=keep_alive) as handle,
        pytest.raises(RateLimited),
    ):
        show(handle)


def test_what_a_terminal_would_obey_is_left_out(capsys):
    """A model cannot move the cursor or set the title."""
    show(Agent(ScriptedModel(["a\x1b]0;title\x07b\tc\nd"])).stream("Hi."))
    assert capsys.readouterr().out.startswith("a]0;titleb\tc\nd\n[")


def test_only_runs_can_be_shown():
    """It says what it takes."""
    with pytest.raises(ConfigurationError, match=r"agent\.stream\(prompt\)"):
        show("Hi.")


SET_UP = """
    import os, signal, threading
    from syncagent import Agent, ToolContext, show, tool
    from syncagent.testing import ScriptedModel, call, say

    @tool
    def pause(ctx: ToolContext) -> str:
        "Take a while."
        ctx.sleep(seconds)
        return "done"

    def agent():
        first = say("**Let me look.** ![p](http://x.example/?secret)", call("pause"))
        return Agent(ScriptedModel([first, "It is 21."]), tools=[pause])
"""
SHOWN = """
    seconds = 0.4
    stream = agent().stream("How warm is it?")
    show(stream)
"""
#: The button of a notebook sends SIGINT to the kernel.
STOPPED = """
    seconds = 60
    stopped = agent()
    stream = stopped.stream("How warm is it?")
    timer = threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    show(stream)
"""
AFTER = """
    print(stopped.is_running, stopped.messages[-1])
    print(stopped.run("Again.").text)
"""


@pytest.fixture(scope="module")
def notebook():
    """A notebook that was executed by a real kernel, and the updates it sent."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    updates = []

    class Client(nbclient.NotebookClient):
        def process_message(self, msg, cell, cell_index):
            if msg["msg_type"] == "update_display_data":
                updates.append(msg["content"]["data"]["text/markdown"])
            return super().process_message(msg, cell, cell_index)

    cells = [SET_UP, SHOWN, "    stream.result", STOPPED, AFTER, "    stopped"]
    book = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(textwrap.dedent(each)) for each in cells]
    )
    Client(book, timeout=LONG, allow_errors=True, kernel_name="python3").execute()
    return book.cells, updates


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
class TestNotebook:
    """A kernel in a process of its own."""

    def test_one_area_is_updated(self, notebook):
        """It shows what is going on before the end, and all of it in the end."""
        cells, updates = notebook
        before_the_end = [text for text in updates if "It is 21" not in text]
        assert any("`pause()`" in text for text in before_the_end)
        [output] = cells[1].outputs
        shown = output["data"]["text/markdown"]
        assert shown.startswith("**Let me look.**")
        assert shown.endswith("It is 21.\n\n`end_turn, 2 turns, 1 tool, 30 tokens`")

    def test_no_picture_is_fetched(self, notebook):
        """A model could be made to put a secret into its address."""
        _, updates = notebook
        assert any("x.example" in text for text in updates)
        assert not any("![" in text for text in updates)

    def test_results_and_conversations_are_rendered(self, notebook):
        """The last value of a cell."""
        cells, _ = notebook
        data = cells[2].outputs[0]["data"]
        assert data["text/plain"].startswith("<RunResult end_turn, 2 turns, 1 tool")
        assert data["text/markdown"].startswith("It is 21.\n\n*end_turn")
        assert "**User**\n\nAgain." in cells[5].outputs[0]["data"]["text/markdown"]

    def test_the_button_stops_the_run(self, notebook):
        """The cell is interrupted, the run is over, and the agent can be used."""
        cells, _ = notebook
        area, error = cells[3].outputs
        assert "`pause()`" in area["data"]["text/markdown"]
        assert error["ename"] == "KeyboardInterrupt"
        first, second = cells[4].outputs[0]["text"].splitlines()
        assert first.startswith("False <ToolMessage: pause -> 'Interrupted")
        assert second == "It is 21."
