"""The sweep over tools of every kind: cancel at every point, from everywhere."""

import pytest
from support.covering import each_value
from support.threads import until
from support.tools import model, process_id

from syncagent import Agent, ToolContext, abandoned, tool
from syncagent.hooks import Retry
from syncagent.testing import call, cancel_everywhere
from syncagent.tools.tool import Tool

pytestmark = pytest.mark.slow

WAYS = ["inside", "thread", "meanwhile"]


@tool(on_cancel="abandon", grace=2.0)
def leaving(ctx: ToolContext) -> str:
    """Be left behind."""
    ctx.wait(0.001)
    return "left"


@tool(timeout=5.0)
def timed(ctx: ToolContext) -> str:
    """Have a timeout."""
    ctx.sleep(0.001)
    return "in time"


@tool(timeout=0.005)
def late(ctx: ToolContext) -> str:
    """Be too late."""
    ctx.wait(5.0)
    return "late"


@tool
def program(ctx: ToolContext) -> str:
    """Run a program."""
    return ctx.run_process(["true"]).stdout


@tool
def asking(ctx: ToolContext) -> str:
    """Ask the user."""
    ctx.progress("asks")
    return ctx.ask("how?")


@each_value("way, width", WAYS, [1, 3])
def test_threads(way, width):
    """Promises 3 to 8 hold with tools that are left behind, late, or asking."""
    tools = [leaving, timed, asking]
    calls = [call(each.name) for each in tools]

    def make():
        return Agent(
            model(*calls),
            tools=tools,
            parallel_tools=width,
            ask=lambda question: "so",
        )

    swept = cancel_everywhere(make, "Do it.", way=way, allow_abandoned=True)
    assert "tool" in swept.phases
    until(lambda: not abandoned())


@pytest.mark.parametrize("width", [1, 2])
def test_a_tool_that_is_late(width):
    """Promises 3 to 8 hold when a timeout and a cancel meet."""
    calls = [call("late"), call("timed")]
    cancel_everywhere(
        lambda: Agent(model(*calls), tools=[late, timed], parallel_tools=width),
        "Do it.",
        way="meanwhile",
        allow_abandoned=True,
    )
    until(lambda: not abandoned())


@pytest.mark.parametrize("way", ["thread", "meanwhile"])
def test_programs(way):
    """Promises 3 to 8 hold with a program, whose process is gone each time."""
    swept = cancel_everywhere(
        lambda: Agent(model(call("program")), tools=[program]), "Do it.", way=way
    )
    assert "attach" in {point.kind for point in swept.points}


def test_processes():
    """Promises 3 to 8 hold with a tool in a process, which is killed each time."""
    made = Tool(process_id, on_cancel="kill")
    swept = cancel_everywhere(
        lambda: Agent(model(call("process_id")), tools=[made]), "Do it.", way="thread"
    )
    assert "attach" in {point.kind for point in swept.points}


@pytest.mark.parametrize(
    ("way", "width"), [("inside", 1), ("thread", 1), ("meanwhile", 1), ("thread", 2)]
)
def test_agents(way, width):
    """Promises 3 to 8 hold with agents as tools, also two at once."""
    calls = [call("inner", {"prompt": "What?"}, f"c{n}") for n in range(width)]

    def make():
        inner = Agent(model(call("timed")), tools=[timed], name="inner")
        return Agent(model(*calls), tools=[inner], parallel_tools=width)

    swept = cancel_everywhere(make, "Do it.", way=way, allow_abandoned=True)
    assert len(swept.points) > 20
    until(lambda: not abandoned())


@pytest.mark.parametrize("isolation", [None, "thread"])
def test_a_tool_that_is_made_again(isolation):
    """Promises 5 and 6: whatever was called is not said not to have been."""
    begun, wrong = [], []

    @tool(isolation=isolation)
    def work() -> str:
        """Work."""
        begun.append(1)

    class Twice:
        def after_tool(self, event):
            return Retry() if len(begun) == 1 else None

        def on_finish(self, result):
            for each in result.tool_outcomes:
                if (each.outcome == "not_started") is bool(begun):
                    wrong.append((each.outcome, len(begun)))

    def make():
        begun.clear()
        return Agent(model(call("work")), tools=[work], hooks=[Twice()])

    cancel_everywhere(make, "Do it.")
    assert wrong == []


def test_a_cancel_by_force_at_every_point():
    """Promises 3 to 8 hold without any patience, too."""
    tools = [leaving, timed]
    calls = [call(each.name) for each in tools]
    cancel_everywhere(
        lambda: Agent(model(*calls), tools=tools, parallel_tools=2),
        "Do it.",
        way="thread",
        cancel=lambda agent: agent.cancel(force=True),
        allow_abandoned=True,
    )
    until(lambda: not abandoned())
