"""What tools raise: a failed result, or it goes up and leaves all in order."""

import os
import signal
import sys
import threading
import traceback

import pytest
from support.threads import until
from support.tools import (
    AGAIN,
    LAST,
    Background,
    Door,
    agent_for,
    check,
    give_back,
    outcomes,
    run_tools,
    told,
)

from syncagent import Limits, ToolContext, ToolError, tool
from syncagent.hooks import Retry
from syncagent.testing import Gate, call, complaints
from syncagent.tools.tool import Tool

WHERE = {"inline": {}, "thread": {"isolation": "thread"}}
GOES_UP = [KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError]


class Odd(BaseException):
    """Nobody's mistake."""


@tool
def companion() -> str:
    """Be there, too."""
    return "here"


def raising(error, **settings):
    @tool(**settings)
    def broken() -> str:
        """Raise something."""
        raise error

    return broken


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (ToolError("say it like this"), "say it like this"),
        (StopIteration("over"), "StopIteration: over"),
        (RecursionError(), "RecursionError"),
        (TimeoutError("late"), "TimeoutError: late"),
    ],
)
def test_an_exception_is_a_failed_result(where, width, error, words):
    """The model is told, and the run goes on."""
    agent = agent_for(raising(error, **WHERE[where]), companion, parallel_tools=width)
    result = agent.run("Do it.")
    check(agent, result, ["failed", "done"])
    assert told(result)[0] == result.tool_outcomes[0].error == words


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("kind", [*GOES_UP, Odd])
def test_what_goes_up(where, width, kind):
    """Promise 4: the transcript is valid, and the agent can be used again."""
    error = kind("mine")
    agent = agent_for(companion, raising(error, **WHERE[where]), parallel_tools=width)
    with pytest.raises(kind) as raised:
        agent.run("Do it.")
    assert raised.value is error
    assert complaints(agent.messages) == {}
    assert not agent.is_running
    assert agent.run(AGAIN).text == LAST


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_goes_up_ends_the_others_first(kind):
    """Promise 7: a tool beside it is told to stop, and waited for."""
    gate, ended = Gate(), []

    @tool
    def polite(ctx: ToolContext) -> str:
        """Wait."""
        gate.open()
        ctx.wait()
        ended.append("polite")

    @tool
    def broken() -> str:
        """Raise something when the other one runs."""
        gate.stop_here()
        raise kind

    agent = agent_for(polite, broken, parallel_tools=2)
    with pytest.raises(kind):
        agent.run("Do it.")
    assert ended == ["polite"]
    assert complaints(agent.messages) == {}
    assert agent.run(AGAIN).text == LAST


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_goes_up_after_a_cancel(where, kind):
    """Promise 4: a cancel does not hide that somebody wants to leave."""
    runner = threading.get_ident()

    def is_winding_down():
        stack = traceback.extract_stack(sys._current_frames()[runner])
        return "_wind_down" in [frame.name for frame in stack]

    @tool(**WHERE[where])
    def broken(ctx: ToolContext) -> str:
        """Raise something when the run waits for its end."""
        agent.cancel()
        if where == "thread":
            until(is_winding_down)
        raise kind

    agent = agent_for(broken)
    with pytest.raises(kind):
        agent.run("Do it.")
    assert complaints(agent.messages) == {}
    assert agent.run(AGAIN).text == LAST


@pytest.mark.parametrize(
    "settings",
    [{"isolation": "thread"}, {"isolation": "process"}, {"isolation": None}],
)
def test_ctrl_c_while_a_tool_runs(tmp_path, settings):
    """Promise 4: a real SIGINT goes up from wherever the run waits for the tool."""
    made = Tool(give_back, name="job", on_cancel="wait", **settings)
    with Door(tmp_path) as door:
        agent = agent_for(made, calls=[call("job", door.arguments)])

        def interrupt():
            door.wait_reached()
            os.kill(os.getpid(), signal.SIGINT)
            door.open()

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            agent.run("Do it.")
        thread.join()
    assert complaints(agent.messages) == {}
    assert agent.run(AGAIN).text == LAST


# -- bad input ---------------------------------------------------------------------


@tool
def typed(count: int, names: list[str]) -> str:
    """Take what is typed."""
    return "fine"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("{}", "count"),
        ('{"count": "many", "names": []}', "count"),
        ('{"count": 1, "names": [1]}', "names[0]"),
        ('{"count": 1, "names": [], "more": 2}', "more"),
        ('{"count": 1, "names": nul', "not a JSON object"),
        ("[1]", "not a JSON object"),
        ('"text"', "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ('{"count": 1e999, "names": []}', "out of range"),
    ],
)
def test_arguments_of_the_wrong_shape(arguments, words):
    """The model is told where, and what was expected; the others run."""
    agent = agent_for(
        typed, companion, calls=[call("typed", arguments), call("companion")]
    )
    result = agent.run("Do it.")
    check(agent, result, ["failed", "done"])
    assert words in told(result)[0]
    assert result.tool_outcomes[0].seconds == 0.0


def test_a_tool_that_does_not_exist():
    """The model is told which do."""
    agent = agent_for(companion, calls=[call("missing"), call("companion")])
    result = agent.run("Do it.")
    check(agent, result, ["failed", "done"])
    assert "the tools are: companion" in told(result)[0]


def test_the_model_cannot_give_the_context():
    """It is not a parameter, whatever the model says."""

    @tool
    def look(ctx: ToolContext) -> str:
        """Look."""

    @tool(parameters={})
    def raw(ctx, **rest) -> str:
        """Look."""
        return type(ctx).__name__

    calls = [call("look", {"ctx": {}}), call("raw", {"ctx": "mine", "x": 1})]
    result = run_tools(look, raw, calls=calls)
    assert outcomes(result) == ["failed", "done"]
    assert told(result)[1] == "ToolContext"


@pytest.mark.parametrize("where", WHERE)
def test_unspeakable_results(where):
    """The model is told that the tool has run, and what went wrong after that."""

    class Angry:
        def __repr__(self):
            raise RuntimeError("no")

        __str__ = __iter__ = __len__ = __repr__

    @tool(**WHERE[where])
    def odd() -> object:
        """Return what cannot be said."""
        return [Angry()]

    @tool(**WHERE[where])
    def huge() -> str:
        """Return far too much."""
        return "x" * 3_000_000

    agent = agent_for(odd, huge)
    result = agent.run("Do it.")
    check(agent, result, ["failed", "done"])
    assert "the tool has run" in told(result)[0]
    assert "2900000 characters left out" in told(result)[1]


def test_the_limit_of_results_can_be_set():
    """For each tool."""

    @tool(result_limit=10)
    def short() -> str:
        """Return much."""
        return "x" * 100

    assert "90 characters left out" in told(run_tools(short))[0]


def test_calls_with_the_same_id():
    """Promise 4: each has its result, whatever the model calls them."""
    seen = []

    @tool
    def note(text: str, ctx: ToolContext) -> str:
        """Note something."""
        seen.append(ctx.idempotency_key)
        return text

    calls = [call("note", {"text": text}, "same") for text in ("a", "b")]
    agent = agent_for(note, calls=calls)
    result = agent.run("Do it.")
    assert told(result) == ["a", "b"]
    assert complaints(agent.messages) == {}
    assert len(set(seen)) == 2


# -- retries by hooks --------------------------------------------------------------


class Insist:
    """A hook that wants everything again."""

    def after_tool(self, event):
        return Retry()


@pytest.mark.parametrize("where", WHERE)
def test_a_retry_counts_for_the_limits(where):
    """A hook that never has enough does not run for ever."""
    begun = []

    @tool(**WHERE[where])
    def work() -> str:
        """Work."""
        begun.append(1)

    result = run_tools(work, hooks=[Insist()], limits=Limits(tool_calls=3))
    assert len(begun) == 3
    assert outcomes(result) == ["done"]


@pytest.mark.parametrize("where", WHERE)
def test_a_cancel_before_a_retry_leaves_the_first_result(where):
    """Promises 5 and 6: it is not made again, and not said not to have been made."""
    begun = []

    @tool(**WHERE[where])
    def work() -> str:
        """Work."""
        begun.append(1)
        return "worked"

    agent = agent_for(work, hooks=[Insist()])
    with agent.stream("Do it.") as stream:
        for event in stream:
            if type(event).__name__ == "ToolStarted" and begun:
                agent.cancel()
    assert begun == [1]
    assert outcomes(stream.result) == ["done"]
    assert told(stream.result) == ["worked"]


@pytest.mark.parametrize("where", WHERE)
def test_every_attempt_is_announced(where):
    """Whoever follows the run sees each begin, and one end."""

    @tool(**WHERE[where])
    def work() -> str:
        """Work."""

    agent = agent_for(work, hooks=[Insist()], limits=Limits(tool_calls=3))
    background = Background(agent)
    background.result()
    names = [type(event).__name__ for event in background.events]
    assert (names.count("ToolStarted"), names.count("ToolFinished")) == (3, 1)
