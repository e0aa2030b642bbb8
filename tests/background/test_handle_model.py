"""A handle against a small model of what it should do, by random calls."""

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from support.handles import words_of
from support.threads import LONG, until

from syncagent import Agent, ConfigurationError, ToolContext, tool
from syncagent.cancel import Mailbox
from syncagent.events import RunFinished, StateChanged
from syncagent.testing import ScriptedModel, call, complaints, say

pytestmark = pytest.mark.slow


class Prompted(ScriptedModel):
    """Says what it is given, when it is given that."""

    def __init__(self):
        super().__init__()
        self.mail = Mailbox()

    def _next_entry(self, messages, token):
        entry = self.mail.get(token)
        token.checkpoint()
        return entry


#: What the handle says it is doing, by what the model of it is doing.
STATES = {
    "idle": "idle",
    "asked": "processing",
    "approval": "waiting_for_approval",
    "tool": "executing_tool",
    "done": "done",
}


#: What ends something; mostly what leaves more to be done.
ENDS = [*["interrupt"] * 6, *["agent"] * 2, "cancel", "shutdown"]


class HandleMachine(RuleBasedStateMachine):
    """What a handle should do: here without threads, there with them."""

    @initialize(is_kept=st.booleans(), prompt=st.sampled_from([None, "p0"]))
    def begin(self, is_kept, prompt):
        self.model, self.door = Prompted(), Mailbox()

        @tool
        def work(ctx: ToolContext) -> str:
            """Work until it is told to end, or stop when it should."""
            self.door.get(ctx.token)
            ctx.checkpoint()
            return "worked"

        @tool(requires_approval=True)
        def risky() -> str:
            """Do what not everybody may."""
            return "did"

        self.agent = Agent(self.model, tools=[work, risky])
        self.handle = self.agent.start(prompt, keep_alive=is_kept)
        self.follower = self.handle.subscribe()
        self.is_kept = is_kept or prompt is None
        self.phase = "idle" if prompt is None else "asked"
        self.heard = [] if prompt is None else [prompt]
        self.requests = len(self.heard)
        self.queued, self.past, self.ends = [], [], []
        self.sent = 0

    # -- what should happen --------------------------------------------------------

    @property
    def is_live(self):
        return self.phase not in ("idle", "done")

    def ask(self):
        """The model is asked, with all that was sent meanwhile."""
        self.heard += self.queued
        self.queued = []
        self.phase, self.requests = "asked", self.requests + 1

    def end_run(self, word, *, is_kept=False, is_last=False):
        """A run ends."""
        self.ends.append(word)
        if is_last:
            self.phase = "done"
        elif self.queued:
            self.ask()
        else:
            self.phase = "idle" if self.is_kept or is_kept else "done"

    # -- what is done --------------------------------------------------------------

    @rule()
    def send(self):
        words = f"n{self.sent}"
        self.sent += 1
        if self.phase == "done":
            with pytest.raises(ConfigurationError, match="is over"):
                self.handle.send_input(words)
            return
        self.handle.send_input(words)
        self.queued.append(words)
        if self.phase == "idle":
            self.ask()

    @precondition(lambda self: self.phase == "asked")
    @rule(what=st.sampled_from(["words", "tool", "risky", "error"]))
    def answer(self, what):
        if what == "words":
            self.model.mail.put("ok")
            self.end_run("end_turn")
        elif what == "error":
            self.model.mail.put(ValueError("no"))
            self.end_run("error")
        else:
            name = {"tool": "work"}.get(what, what)
            self.model.mail.put(say(call(name, call_id=f"c{self.requests}")))
            self.phase = {"risky": "approval"}.get(what, what)

    @precondition(lambda self: self.phase == "tool")
    @rule()
    def let_tool_end(self):
        self.door.put(True)
        self.ask()

    @precondition(lambda self: self.phase == "approval")
    @rule(allow=st.booleans(), by_call=st.booleans())
    def respond(self, allow, by_call):
        (asked,) = self.handle.interrupts
        assert self.handle.answer(asked.call_id if by_call else asked.id, allow)
        self.past += [asked.id, asked.call_id]
        self.ask()

    @rule()
    def respond_to_nothing(self):
        with pytest.raises(ConfigurationError, match="no open question"):
            self.handle.answer("nothing", True)
        for name in self.past:
            assert not self.handle.answer(name, True)

    @rule(how=st.sampled_from(ENDS))
    def end(self, how):
        was_live = self.is_live
        self.past += [asked.id for asked in self.handle.interrupts]
        function = self.agent.cancel if how == "agent" else getattr(self.handle, how)
        receipt = function(how)
        assert bool(receipt) == receipt.first == was_live
        if was_live:
            word = "shutdown" if how == "shutdown" else "cancelled"
            is_last = how in ("cancel", "shutdown")
            self.end_run(word, is_kept=how == "interrupt", is_last=is_last)
        elif how == "shutdown":
            self.phase = "done"

    @rule()
    def background(self):
        assert not self.agent.background()

    # -- what should be so ---------------------------------------------------------

    @property
    def state(self):
        has_failed = bool(self.ends) and self.ends[-1] == "error"
        return "failed" if has_failed and not self.is_live else STATES[self.phase]

    def has_come(self):
        """Is the handle where it should be?"""
        handle, is_done = self.handle, self.phase == "done"
        return (
            (handle.state, handle.done()) == (self.state, is_done)
            and len(self.model.requests) == self.requests
            and len(handle.interrupts) == (self.phase == "approval")
        )

    @invariant()
    def it_is_so(self):
        handle = self.handle
        until(self.has_come)
        assert handle.wait(0 if self.is_live else LONG) != self.is_live
        pending = [block.text for m in handle.pending_inputs for block in m.content]
        assert pending == self.queued
        assert self.agent.is_running == self.is_live
        if not self.is_live:
            assert words_of(self.agent) == self.heard
            assert complaints(self.agent.messages) == {}
            self.check_result()

    def check_result(self):
        last = self.ends[-1] if self.ends else None
        if last is None:
            with pytest.raises(ConfigurationError, match="there was no prompt"):
                self.handle.result(LONG)
        elif last == "error":
            with pytest.raises(ValueError, match="no"):
                self.handle.result(LONG)
        else:
            assert self.handle.result(LONG).stop_reason == last

    def teardown(self):
        if not hasattr(self, "handle"):
            return
        if self.is_live:
            self.ends.append("shutdown")
        self.handle.close()
        events = list(self.follower)
        assert events == list(self.handle.subscribe())
        words = [
            event.result.stop_reason if isinstance(event, RunFinished) else "error"
            for event in events
            if isinstance(event, RunFinished)
            or (isinstance(event, StateChanged) and event.state == "failed")
        ]
        assert words == self.ends
        assert not self.agent.is_running
        assert complaints(self.agent.messages) == {}


TestHandleMachine = HandleMachine.TestCase
TestHandleMachine.settings = settings(
    max_examples=25,
    stateful_step_count=40,
    deadline=None,
    # No shrinking: what never comes takes the whole of LONG each time.
    phases=[Phase.explicit, Phase.generate],
)


@pytest.mark.stress
class TestHandleMachineForLong(HandleMachine.TestCase):
    """The same, with many more examples."""

    settings = settings(TestHandleMachine.settings, max_examples=500)
