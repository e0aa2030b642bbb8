"""Raise at each line that a run executes, as Ctrl+C may."""

import gc
import sys
from functools import cache
from pathlib import Path

from support.interrupting import is_ignored
from syncagent import abandoned
from syncagent.testing import complaints

#: Where it is raised.
STORY = {
    f"{name}.py"
    for name in ("loop", "run", "run_stream", "driver", "settle", "agent", "rounds")
}


class Raiser:
    """Raises at line number *at*, counted from the begin of the call."""

    def __init__(self, at, story=STORY, kind=KeyboardInterrupt):
        self._at = at
        self._story, self._kind = story, kind
        self._count = 0
        #: Where it has raised, for the message.
        self.where = None

    def call(self, function):
        """Call *function*; tell whether what was raised went up."""
        sys.settrace(self._trace)
        try:
            function()
        except self._kind:
            return True
        finally:
            sys.settrace(None)
        return False

    def _trace(self, frame, event, arg):
        if event == "call":
            is_told = _name(frame.f_code.co_filename) in self._story
            return self._trace if is_told and not is_ignored(frame) else None
        if event == "line":
            self._count += 1
            if self._count == self._at:
                name = _name(frame.f_code.co_filename)
                self.where = f"{name}:{frame.f_lineno}"
                raise self._kind
        return self._trace


@cache
def _name(file):
    """Return the name of a file of the package, and nothing for those in folders."""
    path = Path(file)
    return path.name if path.parent.name == "syncagent" else ""


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
