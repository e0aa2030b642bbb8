"""background() at the same moment as something else: one of the two was first."""

import random
import sys
import threading

import pytest
from support.background import FACES
from support.threads import LONG, together, until

from syncagent import Agent, ToolContext, tool
from syncagent.events import RunFinished
from syncagent.testing import ScriptedModel, call, complaints, say

WORDS = "One, two, three, four, five, six, seven."
ROUNDS = 80


@pytest.fixture(autouse=True)
def hectic():
    """Have threads take turns as often as Python can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Match:
    """One run, and what happens to it at some moment that nobody knows."""

    def __init__(self, face, number):
        self.face = face
        self.ends = []
        self.ran = []
        self.go = threading.Event()
        #: Lets the others come a little later each time.
        self._patience = random.Random(number).randrange(200)

        @tool(isolation=random.Random(number).choice([None, "thread"]))
        def work(ctx: ToolContext) -> str:
            """Work."""
            self.ran.append(ctx.call_id)
            return "worked"

        model = ScriptedModel([say("x", call("work")), WORDS, *["ok"] * 5], piece=1)
        self.agent = Agent(model, tools=[work], hooks=[self])
        self.result = None
        self.events = []

    def on_finish(self, result):
        self.ends.append(result)

    def on_event(self, event):
        self.go.set()

    def run(self):
        if self.face == "stream":
            for event in self.agent.stream("Do it."):
                self.events.append(event)
            assert isinstance(event, RunFinished)
            self.result = event.result
            return
        backgroundable = self.face == "backgroundable"
        self.result = self.agent.run("Do it.", backgroundable=backgroundable)

    def wait(self):
        """Wait for the moment."""
        assert self.go.wait(LONG)
        for _ in range(self._patience):
            pass

    def final(self):
        """Return what the run has come to, wherever; see that all is in order."""
        result = self.result
        if result.stop_reason == "backgrounded":
            result = result.handle.result(LONG)
            until(self.result.handle.done)
        assert not self.agent.is_running
        assert [(end.run_id, end.text) for end in self.ends] == [
            (result.run_id, result.text)
        ]
        assert len(self.ran) <= 1
        assert complaints(self.agent.messages) == {}
        if not result.cancelled:
            assert (result.text, self.ran) == (WORDS, ["call_work"])
        assert self.agent.run("Go on.").stop_reason == "end_turn"
        return result


@pytest.mark.parametrize("face", FACES)
def test_against_the_end_of_the_run(face):
    """Its caller is told the end, or the handle is; never neither, never both."""
    seen = set()
    for number in range(ROUNDS):
        match = Match(face, number)
        together(match.run, lambda m=match: (m.wait(), m.agent.background()))
        assert match.final().stop_reason == "end_turn"
        seen.add(match.result.stop_reason)
    assert seen <= {"end_turn", "backgrounded"}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("background", ["keep", "cancel"])
def test_against_a_cancel(background, face):
    """Promise 3: a receipt is true if and only if the run was cancelled."""
    for number in range(ROUNDS):
        match, receipts = Match(face, number), []

        def cancel(match=match, receipts=receipts):
            match.wait()
            receipts.append(match.agent.cancel("enough", background=background))

        def leave(match=match):
            match.wait()
            match.agent.background()

        together(match.run, cancel, leave)
        assert receipts[0].wait(LONG)
        assert bool(receipts[0]) == match.final().cancelled


@pytest.mark.parametrize("face", FACES)
def test_against_a_closed_handle_and_another_wish(face):
    """Any number may ask, and end it, at once."""
    for number in range(ROUNDS // 2):
        match = Match(face, number)

        def leave(match=match):
            match.wait()
            match.agent.background()

        def run(match=match):
            match.run()
            if match.result.handle is not None:
                match.result.handle.close()

        together(run, leave, leave)
        assert match.final().stop_reason in {"end_turn", "cancelled", "shutdown"}


@pytest.mark.parametrize("face", FACES)
def test_against_an_event_of_the_callers_own(face):
    """Promise 3: it hits the run wherever that is by then."""
    for number in range(ROUNDS // 2):
        match, event = Match(face, number), threading.Event()
        settings = {"cancel": event}
        if face == "backgroundable":
            settings["backgroundable"] = True

        def run(match=match, settings=settings):
            if face == "stream":
                *_, last = match.agent.stream("Do it.", **settings)
                match.result = last.result
            else:
                match.result = match.agent.run("Do it.", **settings)

        together(
            run,
            lambda m=match: (m.wait(), m.agent.background()),
            lambda m=match, e=event: (m.wait(), e.set()),
        )
        match.final()


@pytest.mark.parametrize("face", FACES)
def test_the_handle_of_many_at_once(face):
    """Promise 9: many agents leave at once, and none takes the place of another."""
    matches = [Match(face, number) for number in range(12)]

    def leave():
        for match in matches:
            match.wait()
            match.agent.background()

    together(leave, *(match.run for match in matches))
    assert {match.final().text for match in matches} == {WORDS}
