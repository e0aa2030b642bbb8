"""What a tool knows about its run, and what ends with it."""

import logging
import re
import socket
import sqlite3
import time
from functools import partial

import pytest
from support.threads import together
from support.tools import (
    LONG,
    SOON,
    Background,
    Door,
    agent_for,
    check,
    hear_nobody,
    model,
    outcomes,
    run_tools,
    told,
    whoami,
)

from syncagent import Agent, ToolContext, tool
from syncagent.events import ToolProgress
from syncagent.hooks import Retry
from syncagent.logs import RunIdFilter
from syncagent.messages import Json
from syncagent.testing import FakeServer, Gate, call
from syncagent.tools.tool import Tool


def test_a_query_is_interrupted():
    """Promise 2: a real database stops in the middle of an endless statement."""
    gate = Gate()

    @tool
    def query(ctx: ToolContext) -> str:
        """Count for ever."""
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        connection.create_function("reach", 0, reach)
        try:
            ctx.on_cancel(connection.interrupt)
            connection.execute(
                "with recursive n(x) as (select reach() union all select x from n) "
                "select count(*) from n"
            ).fetchone()
        finally:
            connection.close()

    def reach():
        gate.open()
        gate.stop_here()
        return 1

    agent = agent_for(query)
    background = Background(agent)
    gate.wait_reached()
    began = time.monotonic()
    agent.cancel()
    check(agent, background.result(), ["interrupted"])
    assert time.monotonic() - began < SOON


def test_a_request_ends_with_the_run():
    """Promise 2: a server that says nothing holds nobody up."""

    @tool
    def fetch(url: str, ctx: ToolContext) -> str:
        """Ask a server."""
        return ctx.http.get(url).text

    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        agent = agent_for(fetch, calls=[call("fetch", {"url": url})])
        background = Background(agent)
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(3) == b"GET"
            agent.cancel()
            check(agent, background.result(SOON), ["interrupted"])


def test_a_request_that_is_answered():
    """It is a session of requests."""

    @tool
    def fetch(url: str, ctx: ToolContext) -> int:
        """Ask a server."""
        assert ctx.http is ctx.http
        return ctx.http.get(f"{url}/nothing").status_code

    with FakeServer(["never"]) as server:
        result = run_tools(fetch, calls=[call("fetch", {"url": server.base_url})])
    assert outcomes(result) == ["done"]


def test_a_program_ends_with_the_run_and_its_words_are_kept(tmp_path):
    """Promise 5: what it had said is told to the model, though it was stopped."""

    @tool
    def program(mail: str, door: str, ctx: ToolContext) -> str:
        """Run a program."""
        script = f"echo half of it; echo oops >&2; echo $$ > {mail}; sleep 1000"
        return ctx.run_process(["sh", "-c", script]).stdout

    with Door(tmp_path) as door:
        agent = agent_for(program, calls=[call("program", door.arguments)])
        background = Background(agent)
        door.wait_reached()
        agent.cancel()
        result = background.result()
    check(agent, result, ["interrupted"])
    assert "half of it" in told(result)[0]
    assert "oops" in told(result)[0]


def test_the_words_of_a_program_are_cut_like_a_result(tmp_path):
    """A megabyte of output is no good to anybody."""

    @tool(result_limit=1000)
    def program(mail: str, door: str, ctx: ToolContext) -> str:
        """Run a program that talks."""
        script = f"head -c 900000 /dev/zero | tr '\\0' x; echo $$ > {mail}; sleep 1000"
        return ctx.run_process(["sh", "-c", script]).stdout

    with Door(tmp_path) as door:
        agent = agent_for(program, calls=[call("program", door.arguments)])
        background = Background(agent)
        door.wait_reached()
        agent.cancel()
        [words] = told(background.result())
    assert "characters left out" in words
    assert len(words) < 2000


def test_a_program_that_ends_by_itself():
    """Its output is the tool's to use; one that fails is an error if it is checked."""

    @tool
    def good(ctx: ToolContext) -> str:
        """Run a program."""
        return ctx.run_process(["cat"], input="hello").check().stdout

    @tool
    def bad(ctx: ToolContext) -> str:
        """Run one that fails."""
        return ctx.run_process(["sh", "-c", "echo oops >&2; exit 3"]).check().stdout

    result = run_tools(good, bad)
    assert outcomes(result) == ["done", "failed"]
    assert told(result)[0] == "hello"
    assert "oops" in told(result)[1]


# -- asking ------------------------------------------------------------------------


@tool
def ask(ctx: ToolContext) -> str:
    """Ask the user."""
    return f"the user says {ctx.ask('how?')}"


def test_a_question():
    """It is answered by the agent's handler."""
    asked = []
    result = run_tools(ask, ask=lambda question: asked.append(question) or "so")
    assert (asked, told(result)) == (["how?"], ["the user says so"])


def test_a_question_to_nobody():
    """Without a handler the run waits for the answer; the tool is called again."""
    agent = Agent(model(call("ask")), tools=[ask])
    result = agent.run("Ask.")
    [question] = result.interrupts
    assert (result.stop_reason, question.question) == ("interrupt", "how?")
    result = agent.resume({question.id: "so"})
    assert (outcomes(result), told(result)) == (["done"], ["the user says so"])


def test_a_question_that_nobody_answers():
    """Promise 2: a cancel does not wait for a person, whose answer is then none."""
    gate = Gate()
    agent = agent_for(ask, ask=lambda question: gate.stop_here() or "late")
    background = Background(agent)
    gate.wait_reached()
    assert agent.state == "waiting_for_input"
    receipt = agent.cancel()
    check(agent, background.result(), ["interrupted"])
    assert receipt.phase == "input"
    gate.open()


def test_a_handler_that_fails():
    """What it raises is an error of the tool that has asked."""
    result = run_tools(ask, ask=lambda question: 1 / 0)
    assert outcomes(result) == ["failed"]
    assert "ZeroDivisionError" in told(result)[0]


# -- talking -----------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"isolation": "thread"}])
def test_progress_is_heard_in_order(settings):
    """As events, before the tool has finished."""

    @tool(**settings)
    def work(ctx: ToolContext) -> str:
        """Work in steps."""
        for step in range(3):
            ctx.progress({"step": step})

    with agent_for(work).stream("Do it.") as stream:
        names = [type(event).__name__ for event in stream]
    first = names.index("ToolStarted")
    expected = ["ToolStarted", *["ToolProgress"] * 3, "ToolFinished"]
    assert names[first : first + 5] == expected


class Listens:
    """A hook that notes what tools report."""

    def __init__(self):
        self.values = []

    def on_event(self, event):
        if isinstance(event, ToolProgress):
            self.values.append(event.value)


def test_progress_of_a_tool_with_threads_is_heard_in_order():
    """The stream has it in the order in which it was said; observers have all of it."""
    listens = Listens()

    @tool
    def work(ctx: ToolContext) -> str:
        """Work on the run's thread, and on others."""
        for step in range(0, 6, 2):
            ctx.progress(step)
            together(partial(ctx.progress, step + 1))

    with agent_for(work, hooks=[listens]).stream("Do it.") as stream:
        values = [event.value for event in stream if isinstance(event, ToolProgress)]
    assert values == sorted(listens.values) == [0, 1, 2, 3, 4, 5]


def exit_after_progress(ctx: ToolContext) -> str:
    """Exit the program."""
    ctx.progress("last words")
    raise SystemExit(3)


def end_after_progress(ctx: ToolContext) -> str:
    """End; a hook raises then."""
    ctx.progress("last words")
    return "done"


def talk_and_ask(ctx: ToolContext) -> str:
    """Ask the user."""
    ctx.progress("asking")
    return ctx.ask("Which one?")


@pytest.mark.parametrize(
    ("function", "expected"),
    [(exit_after_progress, SystemExit), (end_after_progress, ZeroDivisionError)],
)
def test_progress_comes_before_the_error_that_ends_the_run(function, expected):
    """Promise 5: a stream yields it, and then raises."""

    class Raises(Listens):
        def after_tool(self, event):
            raise ZeroDivisionError

    listens, values = Raises(), []
    agent = agent_for(function, hooks=[listens])
    with pytest.raises(expected):
        for event in agent.stream("Do it."):
            if isinstance(event, ToolProgress):
                values.append(event.value)
    assert values == listens.values == ["last words"]
    assert not agent.is_running


def test_no_tool_starts_after_a_cancel_at_the_progress_of_another():
    """Promise 6: nor does an event say so, also if that tool has to ask."""
    agent = agent_for(talk_and_ask, end_after_progress)
    stream = agent.stream("Do it.")
    for event in stream:
        if isinstance(event, ToolProgress):
            break
    agent.cancel()
    assert [type(event).__name__ for event in stream] == [
        *["ToolFinished"] * 2,
        "RunFinished",
    ]
    assert outcomes(stream.result) == ["interrupted", "not_started"]


def test_progress_of_an_approval_policy_is_heard():
    """No tool runs then; it is heard once, as from a tool."""
    listens = Listens()

    def decide(arguments, ctx):
        ctx.progress("deciding")
        return False

    @tool(requires_approval=decide)
    def work(ctx: ToolContext) -> str:
        """Work."""
        ctx.progress("working")

    with agent_for(work, hooks=[listens]).stream("Do it.") as stream:
        values = [event.value for event in stream if isinstance(event, ToolProgress)]
    assert values == listens.values == ["deciding", "working"]


def test_progress_of_a_stuck_tool_is_heard_at_once():
    """Whoever follows the run sees it while the tool still runs."""
    gate = Gate()

    @tool(isolation="thread")
    def work(ctx: ToolContext) -> str:
        """Work."""
        ctx.progress("begun")
        gate.stop_here()

    with agent_for(work).stream("Do it.") as stream:
        for event in stream:
            if isinstance(event, ToolProgress):
                assert event.value == "begun"
                gate.open()
    assert outcomes(stream.result) == ["done"]


def test_everything_in_a_process():
    """Ids, credentials, questions and progress go there and back."""
    made = Tool(whoami, isolation="process", requires_auth="someone")
    agent = agent_for(
        made, ask=lambda question: "so", authenticate=lambda request: "secret"
    )
    with agent.stream("Do it.") as stream:
        said = [each.value for each in stream if isinstance(each, ToolProgress)]
    assert said == [{"at": 1}]
    [message] = [m for m in stream.result.messages if type(m).__name__ == "ToolMessage"]
    run_id = stream.result.run_id
    known = [run_id, "call_whoami", f"{run_id}:1:call_whoami", "secret", "so"]
    assert message.content[0].content == (Json(known),)


def test_no_agent_runs_in_a_process():
    """It could not be counted or cancelled from there, and says so."""
    result = run_tools(Tool(hear_nobody, isolation="process"))
    assert outcomes(result) == ["failed"]
    assert "remove isolation=" in told(result)[0]


# -- ids ---------------------------------------------------------------------------


def test_idempotency_keys():
    """They differ between calls, turns and runs, and stay the same in a retry."""
    keys = []

    @tool
    def pay(ctx: ToolContext) -> str:
        """Pay."""
        keys.append(ctx.idempotency_key)

    class Twice:
        def after_tool(self, event):
            return Retry() if len(keys) % 2 else None

    calls = [call("pay", call_id="a"), call("pay", call_id="b")]
    agent = Agent(model(*calls), tools=[pay], hooks=[Twice()])
    agent.run("Do it.")
    agent.run("Do it.")
    assert keys[::2] == keys[1::2]
    assert len(set(keys)) == 4


def test_idempotency_keys_are_safe():
    """L16: whatever a provider calls its calls, the key fits into a header."""
    keys = []

    @tool
    def pay(ctx: ToolContext) -> str:
        """Pay."""
        keys.append(ctx.idempotency_key)

    ids = ["a\r\nX-Evil: 1", "\u202e\N{SNOWMAN}", "x" * 100_000, "a/../b?c#d"]
    Agent(model(*(call("pay", call_id=each) for each in ids)), tools=[pay]).run("Go.")
    assert len(set(keys)) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z0-9:._-]{8,100}", key) for key in keys)


def test_ids_are_those_of_the_run():
    """What a tool knows is what the result says."""
    seen = []

    @tool
    def look(ctx: ToolContext) -> str:
        """Look."""
        seen.append((ctx.run_id, ctx.call_id, ctx.tool_name))
        return repr(ctx)

    result = run_tools(look)
    assert seen == [(result.run_id, "call_look", "look")]
    assert told(result) == ["<ToolContext of look, call call_look>"]


@pytest.mark.parametrize("width", [1, 2])
def test_log_records_have_the_run_id(width, caplog):
    """Wherever the tool runs."""
    caplog.handler.addFilter(RunIdFilter())
    caplog.set_level(logging.INFO)

    @tool
    def one() -> str:
        """Log."""
        logging.getLogger("mine").info("from a tool")

    @tool
    def two() -> str:
        """Log, too."""
        logging.getLogger("mine").info("from a tool")

    result = run_tools(one, two, parallel_tools=width)
    found = [r.run_id for r in caplog.records if r.name == "mine"]
    assert found == [result.run_id] * 2


def test_waiting_ends_with_the_cancel():
    """Promise 2: wait() says what it waited for, sleep() and checkpoint() raise."""
    seen = []

    @tool
    def wait(ctx: ToolContext) -> str:
        """Wait."""
        seen.append((ctx.cancelled, ctx.wait(0.001)))
        ctx.sleep(0.001)
        ctx.checkpoint()
        agent.cancel()
        seen.append((ctx.cancelled, ctx.wait(LONG)))
        ctx.checkpoint()
        seen.append("not reached")

    agent = agent_for(wait)
    check(agent, agent.run("Do it."), ["interrupted"])
    assert seen == [(False, False), (True, True)]
