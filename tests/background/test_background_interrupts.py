"""Ctrl+C at every line of the hand-over: one thread has the run, and it ends."""

import threading

import pytest
from support.background import late_thread
from support.covering import each_value
from support.every_line import ASKING, STORY, Raiser, line_numbers, some_lines
from support.threads import LONG, until

from syncagent import Agent, ToolContext, abandoned, tool
from syncagent.events import RunFinished
from syncagent.testing import Gate, ScriptedModel, call, complaints, say

pytestmark = pytest.mark.slow

#: Where it is raised: all that has a part in a hand-over.
PLACES = (*STORY, *ASKING, "background/", "result.py")


class Scene:
    """An agent whose run asks for the background, and then stands at a gate.

    Only a cancel, or the end of the run that it is, gets it away from there.
    """

    def __init__(self, **settings):
        self.gate = Gate()
        self.ends = []
        model = ScriptedModel([say("One.", call("leave")), self.gate, "never", "ok"])
        self.agent = Agent(model, hooks=[self], **settings)

    def on_finish(self, result):
        self.ends.append(result)

    def on_error(self, error):
        self.ends.append(error)

    def problem(self):
        """Return what is wrong after it was interrupted."""
        agent = self.agent
        try:
            until(lambda: not agent.is_running)
        except TimeoutError:
            return "the run goes on, and nobody knows of it"
        if any(isinstance(end, TimeoutError) for end in self.ends):
            return "the run went on to the gate, and nobody knows of it"
        if len(self.ends) > 1:
            return f"it has ended more than once: {self.ends}"
        if complaints(agent.messages):
            return f"not to be sent: {complaints(agent.messages)}"
        self.gate.open()
        until(lambda: not abandoned())
        agent.model._script[:] = ["ok"] * 3
        if agent.run("Go on.").stop_reason != "end_turn":
            return "the next run does not come to its end"
        return complaints(agent.messages) or None


def on_own_thread(seconds=0.0):
    def leave() -> str:
        """Ask for the background, and take some time."""
        scene.agent.background()
        threading.Event().wait(seconds)
        return "left"

    scene = Scene(tools=[leave])
    return scene


def on_a_worker():
    @tool(isolation="thread")
    def leave(ctx: ToolContext) -> str:
        """Ask for the background."""
        scene.agent.background()
        scene.gate.stop_here(LONG, token=ctx.token)
        return "left"

    scene = Scene(tools=[leave])
    return scene


def at_an_approval():
    @tool(requires_approval=True)
    def leave() -> str:
        """Do it."""
        raise AssertionError("nobody has allowed that")

    def approve(request, token):
        scene.agent.background()
        scene.gate.stop_here(LONG, token=token)
        return False

    scene = Scene(tools=[leave], approve=approve)
    return scene


SCENES = [on_own_thread, on_a_worker, at_an_approval]


# Each is given the agent, and a list to put in what it is told.


def run(agent, told):
    told.append(agent.run("Do it."))


def stream(agent, told):
    for event in agent.stream("Do it."):
        if isinstance(event, RunFinished):
            told.append(event.result)


def backgroundable(agent, told):
    told.append(agent.run("Do it.", backgroundable=True))


def start(agent, told):
    told.append(agent.start("Do it."))


def start_in_line(agent, told):
    told.append(agent.start("Do it.", on_busy="queue"))


def interrupt_each_line(make_scene, face, step, kind=KeyboardInterrupt):
    """Interrupt new scenes, each *step* lines later; return where, and the problems."""
    places, problems = [], []
    for number in line_numbers(step):
        scene, raiser, told = make_scene(), Raiser(number, PLACES, kind), []
        went_up = raiser.call(lambda s=scene, t=told: face(s.agent, t))
        for each in told:  # whoever was told of it can end it
            handle = getattr(each, "handle", each)
            if handle is not None:
                handle.close()
        problem = scene.problem()
        if raiser.where is None:
            assert (problem, len(told)) == (None, 1)
            return places, problems
        places.append(raiser.where)
        if kind is KeyboardInterrupt and not went_up:
            problem = "it did not go up"
        if problem is not None:
            problems.append(f"{raiser.where}: {problem}")
    raise AssertionError("the run has no end")


def rooms_of(places):
    return {place.partition("/")[0] for place in places}


@some_lines()
@each_value("make_scene, face", SCENES, [run, stream, backgroundable])
def test_ctrl_c_at_every_line_of_the_hand_over(make_scene, face, step):
    """Promises 4 and 8: it is over here, or cancelled there; never lost, never both."""
    places, problems = interrupt_each_line(make_scene, face, step)
    assert problems == []
    assert rooms_of(places) >= {"background", "conversation"}


@some_lines()
@pytest.mark.parametrize("face", [run, backgroundable])
def test_an_error_that_looks_like_a_lack_of_threads(face, step):
    """Whatever a signal handler raises, two threads never drive the same run."""

    def with_open_gate():
        scene = on_own_thread(0.02 if face is backgroundable else 0.0)
        scene.gate.open()
        return scene

    # A thread that was started for nothing comes while the run is at work.
    with late_thread(0.01):
        _, problems = interrupt_each_line(with_open_gate, face, step, RuntimeError)
    assert problems == []


@some_lines()
@pytest.mark.parametrize("face", [start, start_in_line])
def test_ctrl_c_at_every_line_of_a_start(face, step):
    """A handle that nobody was given does not run on."""
    places, problems = interrupt_each_line(on_own_thread, face, step)
    assert problems == []
    assert rooms_of(places) >= {"background", "conversation"}
