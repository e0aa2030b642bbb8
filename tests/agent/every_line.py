"""Raise at each line that a run executes, as Ctrl+C may."""

import gc
import sys
from pathlib import Path

from interrupting import is_ignored

from syncagent import abandoned
from syncagent.testing import complaints

#: Where it is raised.
STORY = {
    f"{name}.py"
    for name in ("loop", "run", "run_stream", "driver", "settle", "agent", "rounds")
}


class Raiser:
    """Raises at line number *at*, counted from the begin of the call."""

    def __init__(self, at):
        self._at = at
        self._count = 0
        #: Where it has raised, for the message.
        self.where = None

    def call(self, function):
        """Call *function*; tell whether what was raised went up."""
        sys.settrace(self._trace)
        try:
            function()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(None)
        return False

    def _trace(self, frame, event, arg):
        path = Path(frame.f_code.co_filename)
        if path.parent.name != "syncagent" or path.name not in STORY:
            return None
        if is_ignored(frame):
            return None
        if event == "line":
            self._count += 1
            if self._count == self._at:
                self.where = f"{path.name}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self._trace


def interrupt_each_line(make_agent, use, *, step=1):
    """Use new agents, each interrupted one line later; return where, and what is wrong.

    :param use: is given the agent, and runs it.
    :param step: go on so many lines each time.
    """
    places, problems = [], []
    for number in range(1, 100_000, step):
        agent, raiser = make_agent(), Raiser(number)
        went_up = raiser.call(lambda agent=agent: use(agent))
        if raiser.where is None:
            return places, problems
        places.append(raiser.where)
        problem = None if went_up else "it did not go up"
        problem = problem or _problem(agent)
        if problem is not None:
            problems.append(f"{raiser.where}: {problem}")
    raise AssertionError("the run has no end")


def _problem(agent):
    if agent.is_running:
        gc.collect()
    if agent.is_running:
        return "the agent is busy"
    agent.cancel()  # what waits for answers waits no more
    if complaints(agent.messages):
        return f"not to be sent: {complaints(agent.messages)}"
    agent.model._script[:] = ["ok"] * 3
    try:
        result = agent.run("Go on.")
    except BaseException as error:
        return f"the next run raises {error!r}"
    if result.stop_reason != "end_turn":
        return f"the next run comes to {result.stop_reason}"
    if abandoned():
        return f"left behind: {abandoned()}"
    return complaints(agent.messages) or None
