"""The executor, where a signal handler may raise between any two of its steps."""

import pytest
from support.interrupting import interrupted
from support.threads import LONG

from syncagent import CancelToken, abandoned, tool
from syncagent.testing import call
from syncagent.tools.executor import Executor
from syncagent.tools.invocation import Invocation

#: Opcodes from one interruption to the next; a line of Python has more.
STEP = 3


def nothing(*_):
    """Look at nothing."""


class Services:
    """The services of a run that tools in these tests use: almost none."""

    run_id = "run"
    can_ask = False
    watch = None

    def __init__(self):
        self.forced = CancelToken()
        self.helpers = set()


@pytest.mark.parametrize("isolation", [None, "thread"])
def test_an_interruption_anywhere(isolation):
    """Promises 4 and 5: it comes out, nothing hangs, and what began is said to have."""
    begun = []

    @tool(isolation=isolation)
    def work() -> str:
        """Work."""
        begun.append(1)
        return "worked"

    after = 1
    while True:
        begun.clear()
        made = [Invocation(call("work", call_id=str(n))) for n in range(2)]
        for each in made:
            each.tool = work
            each.bind({})
        executor = Executor(Services(), CancelToken(), width=1, after=nothing)
        if not interrupted(lambda: list(executor.run(made)), after):  # noqa: B023
            break
        outcomes = [each.outcome for each in made]
        assert not executor._running
        assert not abandoned(), after
        assert 2 - outcomes.count("not_started") >= len(begun), (after, outcomes)
        after += STEP
    assert after > 100, "the last one was not interrupted, as it had ended"


def test_a_result_whose_mail_is_lost():
    """Promise 5: an interruption between taking it and noting it loses nothing."""

    @tool(isolation="thread")
    def work() -> str:
        """Work."""
        return "worked"

    made = Invocation(call("work"))
    made.tool = work
    made.bind({})
    executor = Executor(Services(), CancelToken(), width=1, after=nothing)
    events = executor.run([made])
    next(events)
    executor._start(made)
    detached, _ = executor._running[made]
    detached._thread.join(LONG)
    assert executor._mail.take() is not None  # and here the interruption comes
    events.close()
    assert made.outcome == "done"
