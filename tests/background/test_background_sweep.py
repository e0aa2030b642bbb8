"""The sweep over runs that leave, and over handles and drivers, wherever they are."""

from contextlib import suppress

import pytest
from support.background import DIALECTS, model_on
from support.covering import each_pair, each_value
from support.threads import LONG
from support.two_rounds import make_agent

from syncagent import Agent, tool
from syncagent.driver import Finished
from syncagent.events import InterruptRaised, TextDelta
from syncagent.exceptions import InterruptOver
from syncagent.interrupts import ApprovalRequest
from syncagent.testing import FakeServer, call, cancel_everywhere, say
from syncagent.transport import close_idle

pytestmark = pytest.mark.slow

WAYS = ["inside", "thread", "meanwhile"]
SETTINGS = [{}, {"approve": None}, {"parallel_tools": 3}]
PHASES = {"begin", "model", "stream", "turn", "before tools", "approval", "tool"}


def cancel(agent):
    """Cancel what runs, wherever it runs."""
    return agent.cancel("swept", background="cancel")


def ended(result):
    """Wait for the end of a run that may have left."""
    if result.stop_reason != "backgrounded":
        return result
    return attended(result.handle)


def attended(handle):
    """Wait for the end of a run, and answer what has no handler."""
    for event in handle.subscribe():
        if isinstance(event, InterruptRaised):
            for asked in handle.interrupts:
                handle.answer(asked.id, True)
    return handle.result(LONG)


def leaving_at(number):
    """Return what runs an agent, and sends it away at its event of that number."""

    def run(agent, prompt):
        events = []
        for event in agent.stream(prompt):
            if len(events) == number:
                agent.background()
            events.append(event)
        return ended(events[-1].result)

    return run


def released(agent, prompt):
    """Run an agent on a thread of its own, and have the caller released at once."""
    return ended(agent.run(prompt, backgroundable=True))


class Leaves:
    """A hook that sends its agent away as soon as something is said."""

    def __init__(self):
        self.agent = None

    def on_event(self, event):
        if isinstance(event, TextDelta):
            self.agent.background()


def that_leaves(**settings):
    leaves = Leaves()
    agent = leaves.agent = make_agent(hooks=[leaves], **settings)
    return agent


def started(agent, prompt):
    """Run an agent with a handle."""
    return attended(agent.start(prompt))


def driven(agent, prompt):
    """Pull an agent along, and answer what has no handler."""
    with agent.drive(prompt) as driver:
        while True:
            step = driver.next()
            if isinstance(step, Finished):
                return step.result
            if isinstance(step, ApprovalRequest):
                with suppress(InterruptOver):
                    step.approve()


@each_value("number, width, way", [0, 3, 12, 20], [1, 3], WAYS)
def test_a_run_that_leaves(number, width, way):
    """Promises 3 to 8: before it has left, while it does, and afterwards."""
    swept = cancel_everywhere(
        lambda: make_agent(parallel_tools=width),
        "Do it.",
        way=way,
        cancel=cancel,
        run=leaving_at(number),
    )
    assert swept.phases >= PHASES


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_asks_after_it_has_left(way):
    """Promises 3 to 8: while it waits for whoever has the handle."""
    swept = cancel_everywhere(
        lambda: make_agent(approve=None),
        "Do it.",
        way=way,
        cancel=cancel,
        run=leaving_at(0),
    )
    assert swept.phases >= PHASES


@each_value("width, way", [1, 3], WAYS)
def test_a_run_whose_caller_is_released(width, way):
    """Promises 3 to 8: on its own thread from the start."""
    swept = cancel_everywhere(
        lambda: that_leaves(parallel_tools=width),
        "Do it.",
        way=way,
        cancel=cancel,
        run=released,
    )
    assert swept.phases >= PHASES


@each_pair("run, settings, way", [started, driven], SETTINGS, WAYS)
def test_a_handle_and_a_driver(settings, run, way):
    """Promises 3 to 8: whoever drives, and whoever answers."""
    swept = cancel_everywhere(
        lambda: make_agent(**settings), "Do it.", way=way, cancel=cancel, run=run
    )
    assert swept.phases >= PHASES


@each_value("run, dialect", [leaving_at(2), started, driven], DIALECTS)
def test_over_a_socket(run, dialect):
    """Promise 9: with a real connection that one thread opens and another reads."""

    @tool
    def noop() -> str:
        """Do nothing."""
        return "nothing"

    turns = []

    def reply(request):
        turns.append(request)
        if len(turns) == 1:
            return say("Let me see.", call("noop", {}, "call_1"))
        return "All is done."

    with FakeServer(reply) as server:

        def make():
            turns.clear()
            return Agent(model_on(server, dialect), tools=[noop])

        swept = cancel_everywhere(make, "Do it.", way="thread", cancel=cancel, run=run)
        close_idle()
    assert {"headers", "stream", "tool"} <= swept.phases
