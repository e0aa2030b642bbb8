"""Raise at each line that a run executes, as Ctrl+C may."""

import gc
import sys
from functools import cache
from pathlib import Path

import pytest

import syncagent
from support.interrupting import is_ignored
from syncagent import abandoned
from syncagent.testing import complaints

_PACKAGE = Path(syncagent.__file__).parent

#: Files and rooms of the package in which it is raised: what every run passes through.
STORY = ("agent.py", "loop.py", "driver.py", "run/", "conversation/")
#: What has a part in questions and answers.
ASKING = ("asking/", "interrupts.py")

#: The number of the first line to raise at; ``--first-line`` sets it.
first_line = 1


def some_lines(step=7):
    """Run a test for every seventh line, and under ``-m stress`` for every line.

    The default run takes another seventh each day.
    """
    return pytest.mark.parametrize(
        "step",
        [
            pytest.param(step, id=f"step-{step}"),
            pytest.param(1, id="every-line", marks=pytest.mark.stress),
        ],
    )


def line_numbers(step):
    """Return the numbers of the lines to raise at, for as long as a run has them."""
    return range(1 + (first_line - 1) % step, 100_000, step)


class Raiser:
    """Raises at line number *at*, counted from the beginning of the call.

    :param places: count only lines of these files and rooms.
    """

    def __init__(self, at, places=STORY, kind=KeyboardInterrupt):
        self._at = at
        self._places, self._kind = places, kind
        self._count = 0
        #: The line that raised, or None if the call has fewer lines.
        self.where = None

    def call(self, function):
        """Call *function*; return whether the exception reached the caller."""
        # In a generator, which has an exception state of its own: on Python 3.11 one
        # that is raised by tracing inside an except block leaves the handled exception
        # there, and with it everything that its frames hold.
        return next(self._calls(function))

    def _calls(self, function):
        went_up = False
        sys.settrace(self._trace)
        try:
            function()
        except self._kind:
            went_up = True
        finally:
            sys.settrace(None)
        yield went_up

    def _trace(self, frame, event, arg):
        if event == "call":
            is_traced = _path(frame.f_code.co_filename).startswith(self._places)
            return self._trace if is_traced and not is_ignored(frame) else None
        if event == "line":
            self._count += 1
            if self._count == self._at:
                path = _path(frame.f_code.co_filename)
                self.where = f"{path}:{frame.f_lineno}"
                raise self._kind
        return self._trace


@cache
def _path(file):
    """Return the path of a file below the package, or nothing for other files."""
    path = Path(file)
    return str(path.relative_to(_PACKAGE)) if path.is_relative_to(_PACKAGE) else ""


def interrupt_each_line(make_agent, use, *, step=1):
    """Interrupt new agents, each *step* lines later; return where, and the problems.

    :param use: is given the agent, and runs it.
    """
    places, problems = [], []
    for number in line_numbers(step):
        agent, raiser = make_agent(), Raiser(number)
        went_up = raiser.call(lambda agent=agent: use(agent))
        if raiser.where is None:
            return places, problems
        places.append(raiser.where)
        problem = None if went_up else "it did not go up"
        problem = problem or problem_with(agent)
        if problem is not None:
            problems.append(f"{raiser.where}: {problem}")
    raise AssertionError("the run has no end")


def problem_with(agent):
    """Return what is wrong with an agent that was interrupted, or None."""
    if agent.is_running:
        gc.collect()
    if agent.is_running:
        return "the agent is busy"
    agent.cancel()  # a paused run is over now
    if complaints(agent.messages):
        return f"cannot be sent: {complaints(agent.messages)}"
    agent.model._script[:] = ["ok"] * 3
    try:
        result = agent.run("Go on.")
    except BaseException as error:
        return f"the next run raises {error!r}"
    if result.stop_reason != "end_turn":
        return f"the next run ends with {result.stop_reason}"
    if abandoned():
        return f"left behind: {abandoned()}"
    return complaints(agent.messages) or None
