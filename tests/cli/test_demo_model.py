"""The model without a model: what can be tried with it."""

import pytest

from syncagent import Agent, ToolContext, tool
from syncagent.cli.choices import choose_model, choose_tools
from syncagent.cli.demo.model import STORY, demo_model
from syncagent.cli.demo.tools import demo_tools
from syncagent.events import TextDelta
from syncagent.models.local import INSTALL


def made(pace=0, **settings):
    return Agent(demo_model(pace=pace), tools=demo_tools(), **settings)


def stop_after(agent, prompt, words):
    """Talk, and stop the answer after so many pieces."""
    with agent.stream(prompt) as stream:
        for event in stream:
            if isinstance(event, TextDelta):
                words -= 1
                if words == 0:
                    agent.cancel("enough")
    return stream.result


def test_help_tells_what_works():
    """Every sample that it shows gets an answer of its own."""
    agent = made()
    said = agent.run("help").text
    for sample in ("tell me a story", "go on", "work 20 seconds", "order 2 pizzas"):
        assert sample in said


def test_it_goes_on_where_it_was_stopped():
    """A story that was stopped, twice, is told to its end without a gap."""
    agent = made()
    first = stop_after(agent, "Tell me a story!", 12)
    assert first.cancelled
    second = stop_after(agent, "go on", 40)
    assert second.cancelled
    told = first.text.split() + second.text.split("... ")[1].split()
    assert len(told) > 20
    assert told == STORY.split()[: len(told)]
    assert "You have stopped me 2 times" in agent.run("What did I say?").text


def test_a_stop_ends_the_pause_between_words():
    """A cancel from another thread ends the story at once, with what was told."""
    agent = made(pace=0.025)
    result = agent.run("a story", timeout=0.2)
    assert result.cancellation.origin == "deadline"
    assert result.text.startswith("Once upon")


@pytest.mark.parametrize(
    ("prompt", "name", "outcome"),
    [
        ("please work 1 second", "work", "done"),
        ("order 3 apples", "order", "done"),
        ("delete the /tmp/x", "delete_files", "denied"),
        ("book a table", "book_table", "done"),
    ],
)
def test_tools_that_it_calls(prompt, name, outcome):
    """Each way to ask and to wait has a word."""
    agent = made(approve=lambda r: r.tool == "order", ask=lambda q: "four")
    result = agent.run(prompt)
    (made_call,) = result.tool_outcomes
    assert (made_call.name, made_call.outcome) == (name, outcome)
    assert "The tool" in result.text


def test_tools_of_the_user():
    """One whose name is said is called, with given or guessed arguments."""
    heard = []

    @tool
    def look_up(city: str, days: int, ctx: ToolContext) -> str:
        """Look it up."""
        heard.append((city, days))
        return "rain"

    agent = Agent(demo_model(pace=0), tools=[look_up, *demo_tools()])
    assert agent.run("look_up Oslo").text == "The tool says: rain"
    agent.run('Please look_up {"city": "Rome", "days": 3}')
    assert heard == [("Oslo", 1), ("Rome", 3)]


def test_without_a_model_there_is_the_scripted_one(monkeypatch):
    """It says so, with a command that installs a real one."""
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    model, notice = choose_model("demo")
    assert repr(model) == "<DemoModel>"
    assert "A script, not a model" in notice
    names = {each.name for each in choose_tools([], model=model)}
    assert names == {each.name for each in demo_tools()}
    assert choose_tools([]) == []
    model, notice = choose_model(None)
    if repr(model) == "<DemoModel>":
        assert INSTALL in notice
    else:
        assert "SmolLM2 135M on this machine: a toy" in notice
        assert "Try: " in notice
    assert "_KEY is set" not in notice


def test_a_key_is_mentioned_and_never_used_unasked(monkeypatch):
    """The line says how to use it; a model that was named needs none."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    model, notice = choose_model(None)
    assert model.endpoint.name != "openai"
    assert "OPENAI_API_KEY is set: --model openai:gpt-6-luna uses it." in notice
    assert "sk-secret" not in notice
    assert "OPENAI_API_KEY" not in choose_model("demo")[1]
    assert choose_model("openai:gpt-6-luna")[1] == ""
