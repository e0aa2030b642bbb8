"""Ctrl+C once more while the first one settles the run, with the exception held."""

import random
import sys

import pytest
from support import every_line
from support.agents import SUM, add
from support.every_line import line_numbers, problem_with, some_lines
from support.interrupting import is_ignored

from syncagent import Agent, CancelToken, abandoned, tool
from syncagent.cancel import live_runs
from syncagent.testing import ScriptedModel, call, say

FIRST = "the first one"
#: A press may come while an interrupted generator is closed because its last user has
#: gone: Python prints and ignores that one.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)


class Presses:
    """Raises at opcodes of the package, once a run has raised by itself.

    :param at: the numbers of the opcodes, counted from there.
    """

    def __init__(self, *at):
        self._at = set(at)
        self._count = 0
        self._is_counting = False
        #: Where it raised.
        self.places = []

    def call(self, function):
        """Call *function*, and return what it raised."""
        # In a generator, as in every_line.py.
        return next(self._calls(function))

    def _calls(self, function):
        caught = None
        sys.settrace(self._trace)
        try:
            function()
        except BaseException as error:
            caught = error
        finally:
            sys.settrace(None)
        yield caught

    def _trace(self, frame, event, arg):
        if event == "call" and (
            "syncagent" not in frame.f_code.co_filename or is_ignored(frame)
        ):
            return None
        if event == "exception" and FIRST in arg[1].args:
            self._is_counting = True
        frame.f_trace_lines = False
        if self._is_counting and not frame.f_trace_opcodes:
            frame.f_trace_opcodes = True
            sys.settrace(self._trace)  # or early releases of 3.12 do not notice
        if event == "opcode" and self._is_counting:
            self._count += 1
            if self._count in self._at:
                name = frame.f_code.co_qualname if sys.version_info > (3, 11) else ""
                self.places.append(f"{name or frame.f_code.co_name}:{frame.f_lineno}")
                sys.settrace(self._trace)  # raising would switch it off
                raise KeyboardInterrupt(self._count)
        return self._trace


class Raises:
    """A hook that raises once."""

    def __init__(self, method):
        self._errors = [KeyboardInterrupt(FIRST)]
        setattr(self, method, self._call)

    def _call(self, event):
        if self._errors:
            raise self._errors.pop()


def hooked(method, **settings):
    hooks = [Raises(method)]
    script = [say("One moment.", *SUM.message.content), "ok", "ok"]
    return Agent(ScriptedModel(script, piece=5), tools=[add], hooks=hooks, **settings)


def in_tool(**settings):
    errors = [KeyboardInterrupt(FIRST)]

    @tool(**settings)
    def break_off() -> str:
        """Raise."""
        if errors:
            raise errors.pop()
        return "ok"

    return Agent(
        ScriptedModel([say(call("break_off"), call("break_off")), "ok"]),
        tools=[break_off],
        parallel_tools=2,
    )


class AtFirstDelta:
    def __init__(self):
        self._errors = [KeyboardInterrupt(FIRST)]

    def on_event(self, event):
        if type(event).__name__ == "TextDelta" and self._errors:
            raise self._errors.pop()


def in_response():
    return Agent(
        ScriptedModel(["One moment, please.", "ok"], piece=5),
        tools=[add],
        hooks=[AtFirstDelta()],
    )


def run(agent):
    agent.run("hi")


def read(agent):
    for _ in agent.stream("hi"):
        pass


def drive(agent):
    driver = agent.drive("hi")
    driver.next()


WAYS = {
    "model": (lambda: hooked("before_model"), run),
    "response": (in_response, run),
    "message": (lambda: hooked("after_model"), run),
    "before-tool": (lambda: hooked("before_tool"), run),
    "tool": (in_tool, run),
    "thread": (lambda: in_tool(isolation="thread"), run),
    "finish": (lambda: hooked("on_finish"), run),
    "stream": (in_response, read),
    "driver": (in_response, drive),
}


def check(make_agent, use, at):
    """Return what is wrong after presses at these opcodes; None without any."""
    agent, presses = make_agent(), Presses(*at)
    held = presses.call(lambda: use(agent))
    if not presses.places:
        return None
    places = ", ".join(presses.places)
    if not isinstance(held, KeyboardInterrupt):
        return f"{places}: {held!r} came out"
    problem = "the agent is busy" if agent.is_running else None
    over = CancelToken(timeout=10)
    while abandoned() and not over.wait(0.001):
        pass  # a tool on a thread of its own is left behind, and about to end
    problem = problem or problem_with(agent)
    if problem is None and live_runs():
        problem = f"still live: {live_runs()}"
    return f"{places}: {problem}" if problem else ""


@some_lines(step=211)
@pytest.mark.parametrize("way", WAYS)
def test_a_second_press_at_every_opcode(way, step):
    """S5: the run ends, and the agent is free, though the exception is held."""
    problems = []
    for number in line_numbers(step):
        problem = check(*WAYS[way], (number,))
        if problem is None:
            break
        problems += filter(None, [problem])
    assert problems == []
    assert number > 300


def rounds(short, long):
    """Repeat a test a few times, and under ``-m stress`` often."""
    return pytest.mark.parametrize(
        "rounds", [short, pytest.param(long, marks=pytest.mark.stress)]
    )


@rounds(10, 2_000)
@pytest.mark.parametrize("count", [2, 3, 20])
@pytest.mark.parametrize("way", WAYS)
def test_more_presses_at_random_opcodes(way, count, rounds):
    """S5, L2: the same for any number of them."""
    chance = random.Random(every_line.first_line)
    problems = []
    for _ in range(rounds):
        at = sorted(chance.sample(range(1, 900), count))
        problems += filter(None, [check(*WAYS[way], at)])
    assert problems == []


@rounds(10, 2_000)
@pytest.mark.parametrize("way", WAYS)
def test_a_key_that_is_held_down(way, rounds):
    """L2: at up to two hundred opcodes in a row."""
    chance = random.Random(every_line.first_line)
    problems = []
    for _ in range(rounds):
        first = chance.randrange(1, 600)
        at = range(first, first + chance.choice([2, 5, 20, 200]))
        problems += filter(None, [check(*WAYS[way], at)])
    assert problems == []
