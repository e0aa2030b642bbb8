"""A cancel while tools run: by the policy of each, and said everywhere."""

import threading
import time

import pytest
from support.threads import until
from support.tools import (
    AGAIN,
    LONG,
    PICTURE,
    SOON,
    Background,
    Door,
    agent_for,
    break_down,
    check,
    cooperate,
    give_back,
    is_gone,
    outcomes,
    results,
    told,
)

from syncagent import ToolContext, abandoned, tool
from syncagent.cancel import CancelToken
from syncagent.exceptions import Cancelled
from syncagent.testing import Gate, call
from syncagent.tools.tool import Tool

THREADS = [("wait", None), ("wait", "thread"), ("abandon", None), ("abandon", "thread")]
PROCESSES = [("wait", "process"), ("abandon", "process")]
WIDTHS = [1, 3]
ON_THREADS = [(how, width) for how in THREADS for width in WIDTHS]
IN_PROCESSES = list(zip(PROCESSES, WIDTHS, strict=True))


@pytest.fixture
def door(tmp_path):
    with Door(tmp_path) as door:
        yield door


@tool
def companion() -> str:
    """Be there, too."""
    return "here"


def begin(door, job, how, width, **settings):
    """Have a stuck tool called together with another; return when it is stuck."""
    on_cancel, isolation = how
    made = Tool(job, name="job", on_cancel=on_cancel, isolation=isolation, **settings)
    calls = [call("job", door.arguments), call("companion")]
    agent = agent_for(made, companion, calls=calls, parallel_tools=width)
    background = Background(agent)
    door.wait_reached()
    if width > 1:  # the other is to be done before the cancel
        until(lambda: "call_companion" in background.finished())
    return background


def end(background, width, outcome):
    """See that this is what became of the stuck tool, wherever one looks."""
    result = background.result()
    rest = "done" if width > 1 else "not_started"
    assert result.cancelled
    assert background.finished() == {"call_job": outcome, "call_companion": rest}
    check(background.agent, result, [outcome, rest])
    return result


@pytest.mark.parametrize(("how", "width"), [*ON_THREADS, (("kill", None), 1)])
def test_a_tool_that_cooperates_is_interrupted(door, how, width):
    """Promises 2 and 5: it ends at once, and its effects are unknown."""
    background = begin(door, cooperate, how, width, grace=LONG)
    began = time.monotonic()
    assert background.agent.cancel("enough")
    result = end(background, width, "interrupted")
    assert time.monotonic() - began < SOON
    assert "effects are unknown" in told(result)[0]
    assert not result.tool_outcomes[0].timed_out


@pytest.mark.parametrize(("how", "width"), [*ON_THREADS, *IN_PROCESSES])
def test_a_tool_that_returns_after_the_cancel_is_done(door, how, width):
    """Promise 5: what it returns is kept, pictures too."""
    background = begin(door, give_back, how, width, grace=LONG)
    background.agent.cancel()
    door.open()
    result = end(background, width, "done")
    assert results(result)[0].content[1] == PICTURE
    assert told(result)[0] == "late"


@pytest.mark.parametrize(("how", "width"), [*ON_THREADS, *IN_PROCESSES])
def test_a_tool_that_raises_after_the_cancel_is_interrupted(door, how, width):
    """Promise 5: by the token, not by the exception; which is told all the same."""
    background = begin(door, break_down, how, width, grace=LONG)
    background.agent.cancel()
    door.open()
    result = end(background, width, "interrupted")
    assert result.tool_outcomes[0].error == "ValueError: too late"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "how", [("abandon", None), ("abandon", "thread"), ("abandon", "process")]
)
def test_a_tool_that_ignores_the_cancel_is_abandoned(door, how, width):
    """Promise 7: it is left after its grace, listed, and struck out when it ends."""
    background = begin(door, give_back, how, width, grace=0.01)
    background.agent.cancel()
    result = end(background, width, "abandoned")
    [left] = abandoned()
    assert (left.name, left.call_id, left.run_id) == ("job", "call_job", result.run_id)
    assert [each.call_id for each in result.abandoned] == ["call_job"]
    before = background.agent.messages
    door.open()
    until(lambda: not abandoned())
    assert background.agent.messages == before, "a late result changes nothing"


@pytest.mark.parametrize(
    ("how", "width"), [(("kill", None), 1), (("kill", "process"), 3)]
)
def test_a_tool_that_ignores_the_cancel_is_killed(door, how, width):
    """Promise 7: its process is gone when the run is."""
    on_cancel, isolation = how
    made = Tool(give_back, name="job", on_cancel=on_cancel, isolation=isolation)
    agent = agent_for(
        *(made, companion),
        calls=[call("job", door.arguments), call("companion")],
        parallel_tools=width,
    )
    background = Background(agent)
    pid = door.wait_reached()
    if width > 1:
        until(lambda: "call_companion" in background.finished())
    agent.cancel()
    end(background, width, "interrupted")
    assert is_gone(pid)
    assert not abandoned()


# -- force -------------------------------------------------------------------------


@pytest.mark.parametrize("escalates", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("how", [("abandon", None), ("wait", "thread")])
def test_force_leaves_threads_behind_at_once(door, how, width, escalates):
    """Promise 2: also when an earlier cancel waits for the grace or the tool."""
    background = begin(door, give_back, how, width, grace=LONG)
    if escalates:
        assert background.agent.cancel("please").first
    assert background.agent.cancel("now", force=True).first is not escalates
    result = background.result(SOON)
    rest = "done" if width > 1 else "not_started"
    assert outcomes(result) == ["abandoned", rest]
    assert result.cancellation.reason == ("please" if escalates else "now")
    door.open()
    until(lambda: not abandoned())


@pytest.mark.parametrize(("escalates", "width"), [(False, 3), (True, 1)])
@pytest.mark.parametrize("how", [*PROCESSES, ("kill", None)])
def test_force_kills_processes_at_once(door, how, width, escalates):
    """Promise 7: whatever the policy; what was killed is not still running."""
    background = begin(door, give_back, how, width, grace=LONG)
    if escalates:
        background.agent.cancel("please")
    background.agent.cancel("now", force=True)
    result = background.result(SOON)
    rest = "done" if width > 1 else "not_started"
    assert outcomes(result) == ["interrupted", rest]
    until(lambda: not abandoned())


@pytest.mark.parametrize("escalates", [False, True])
def test_force_ends_the_grace_of_a_program(door, escalates):
    """Promise 2: a program that ignores SIGTERM is killed without waiting."""

    @tool(grace=LONG)
    def program(mail: str, door: str, ctx: ToolContext) -> str:
        """Run a program that ignores SIGTERM."""
        script = f"trap '' TERM; echo $$ > {mail}; while :; do sleep 0.1; done"
        return ctx.run_process(["sh", "-c", script]).stdout

    agent = agent_for(program, calls=[call("program", door.arguments)])
    background = Background(agent)
    pid = door.wait_reached()
    if escalates:
        agent.cancel()
    agent.cancel(force=True)
    assert outcomes(background.result(SOON)) == ["interrupted"]
    assert is_gone(pid)


def test_force_cannot_leave_a_tool_on_the_runs_own_thread(door):
    """Promise 10: it is the caller's thread, so the run ends when the tool does."""
    background = begin(door, give_back, ("wait", None), 1)
    receipt = background.agent.cancel(force=True)
    assert not receipt.wait(0.05)
    door.open()
    end(background, 1, "done")


# -- the fine print ----------------------------------------------------------------


def test_a_cancel_by_the_tool_itself():
    """Promise 1: it ends by its own return, and nothing else begins."""

    @tool
    def suicidal(ctx: ToolContext) -> str:
        """Cancel the run."""
        assert agent.cancel("from inside")
        return "done with it"

    agent = agent_for(suicidal, companion)
    result = agent.run("Do it.")
    assert result.cancellation.reason == "from inside"
    check(agent, result, ["done", "not_started"])


def test_a_foreign_cancel_is_no_cancel():
    """Promise 9: what another token raises in a tool is a failure of that tool."""
    foreign = CancelToken()
    foreign.cancel("not yours")

    @tool
    def stray() -> str:
        """Look at another's token."""
        foreign.checkpoint()

    agent = agent_for(stray, companion)
    result = agent.run("Do it.")
    assert result.stop_reason == "end_turn"
    check(agent, result, ["failed", "done"])
    assert "not yours" in told(result)[0]


def test_an_unspeakable_result_after_the_cancel_is_a_failure(door):
    """Promise 5: the tool has run to its end, so its effects are known."""

    @tool
    def odd(ctx: ToolContext) -> object:
        """Return what cannot be said."""
        agent.cancel()
        return object()

    agent = agent_for(odd)
    result = agent.run("Do it.")
    check(agent, result, ["failed"])
    assert "the tool has run" in told(result)[0]


def test_callbacks_are_closed_with_the_tool():
    """Promise 9: a later cancel does not run what a tool has left with its context."""
    seen, kept, flushed = [], [], threading.Event()

    @tool
    def hang_on(ctx: ToolContext) -> str:
        """Leave a callback behind, and keep what it hangs on."""
        kept.append(ctx.on_cancel(lambda: seen.append("called")))
        kept.append(ctx)
        return "gone"

    @tool
    def cancel(ctx: ToolContext) -> str:
        """Cancel, when the others have ended."""
        ctx.on_cancel(flushed.set)
        agent.cancel()
        assert flushed.wait(LONG), "the callback of a tool that runs is called"

    agent = agent_for(hang_on, cancel)
    assert outcomes(agent.run("Do it.")) == ["done", "done"]
    assert kept[1].cancelled
    assert seen == []


@pytest.mark.parametrize("width", WIDTHS)
def test_what_had_not_begun_is_never_called(width):
    """Promise 6: with a free place too, nothing of the round begins any more."""
    gate, called = Gate(), []

    @tool(parallel=False)
    def first(ctx: ToolContext) -> str:
        """Be in the way of the others."""
        gate.stop_here()
        return "done"

    @tool
    def second() -> str:
        """Come later."""
        called.append("second")

    agent = agent_for(first, second, companion, parallel_tools=width)
    background = Background(agent)
    gate.wait_reached()
    agent.cancel()
    gate.open()
    check(agent, background.result(), ["done", "not_started", "not_started"])
    assert not called


def test_two_of_three_at_once_end_each_in_its_way(door):
    """Promise 5: each call has an outcome of its own, in the order of the calls."""
    tools = [
        Tool(cooperate, name="polite", isolation="thread"),
        Tool(give_back, name="deaf", on_cancel="abandon", grace=0.01),
        Tool(give_back, name="dead", on_cancel="kill"),
    ]
    calls = [call(each.name, door.arguments) for each in tools]
    agent = agent_for(*tools, calls=calls, parallel_tools=3)
    background = Background(agent)
    for _ in tools:
        door.wait_reached()
    agent.cancel()
    check(agent, background.result(), ["interrupted", "abandoned", "interrupted"])
    door.open()
    until(lambda: not abandoned())


def test_late_progress_of_an_abandoned_tool_is_dropped():
    """Promise 7: nobody hears of it in a later round."""
    gate, later = Gate(), Gate()

    @tool(timeout=0.01)
    def deaf(ctx: ToolContext) -> str:
        """Go on for long."""
        gate.stop_here()
        ctx.progress("late")
        later.open()

    @tool
    def patient(ctx: ToolContext) -> str:
        """Run while the other one ends."""
        gate.open()
        later.stop_here()

    agent = agent_for(deaf, patient)
    background = Background(agent)
    result = background.result()
    assert outcomes(result) == ["abandoned", "done"]
    assert not [each for each in background.events if "Progress" in type(each).__name__]
    until(lambda: not abandoned())


def test_a_dropped_stream_ends_its_tools(door):
    """Promise 7: whoever stops reading leaves no tool behind."""
    made = Tool(cooperate, name="job", isolation="thread")
    agent = agent_for(made, calls=[call("job", door.arguments)])
    stream = agent.stream("Do it.")
    for event in stream:
        if type(event).__name__ == "ToolStarted":
            break
    stream.close()
    assert stream.result.cancellation.origin == "closed"
    assert outcomes(stream.result) == ["not_started"]
    assert agent.run(AGAIN).text


def test_a_tool_that_catches_the_cancel_may_still_return():
    """Promise 5: it has ended in its own way, and that is what counts."""

    @tool
    def tidy(ctx: ToolContext) -> str:
        """Clean up, and say so."""
        agent.cancel()
        try:
            ctx.checkpoint()
        except Cancelled:
            return "cleaned up"

    agent = agent_for(tidy)
    result = agent.run("Do it.")
    check(agent, result, ["done"])
    assert told(result) == ["cleaned up"]
