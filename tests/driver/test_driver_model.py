"""Whatever is done with a driver, in whatever order: a simple model says the same."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
)
from support.questions import KEY

from syncagent import (
    AfterToolResult,
    Agent,
    Approval,
    ApprovalRequest,
    AuthRequest,
    AwaitingInput,
    ConfigurationError,
    ToolContext,
    tool,
)
from syncagent.driver import Finished
from syncagent.exceptions import InterruptOver, InterruptPending
from syncagent.messages import Text, UserMessage
from syncagent.testing import ScriptedModel, call, complaints, say

pytestmark = pytest.mark.slow

NAMES = ("plain", "asked", "locked", "unsure", "all_three")
ANSWERS = {ApprovalRequest: True, AuthRequest: KEY, AwaitingInput: "so"}


class DriverModel(RuleBasedStateMachine):
    """Drive an agent whose model calls tools of all kinds, and look at every step."""

    def __init__(self):
        super().__init__()
        self.ran = []
        self.rounds = []
        self.agent = Agent(ScriptedModel(self._reply), tools=self._tools())
        self.driver = self.agent.drive()
        #: What next() gave last, all that was ever given, and what is used up.
        self.step = None
        self.used = []
        self.said = []

    def _tools(self):
        def plain() -> str:
            """Run at once."""
            self.ran.append("plain")
            return "ran"

        def all_three(ctx: ToolContext) -> str:
            """Ask for everything."""
            ctx.ask("What?")
            answer = ctx.ask("Why?")
            self.ran.append("all_three")
            return answer

        def unsure(ctx: ToolContext) -> str:
            """Ask."""
            ctx.ask("What?")
            self.ran.append("unsure")
            return "ran"

        def asked() -> str:
            """Be approved."""
            self.ran.append("asked")
            return "ran"

        def locked(ctx: ToolContext) -> str:
            """Be opened."""
            assert ctx.credentials == KEY
            self.ran.append("locked")
            return "ran"

        return [
            tool(plain),
            tool(unsure),
            tool(requires_approval=True)(asked),
            tool(requires_auth="door")(locked),
            tool(requires_approval=True, requires_auth="door")(all_three),
        ]

    def _reply(self, messages):
        if not self.rounds:
            return "done"
        names = self.rounds.pop(0)
        return say(*(call(name, {}, f"c{n}") for n, name in enumerate(names)))

    # -- what may be done --------------------------------------------------------------

    @rule(rounds=st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)))
    def plan(self, rounds):
        """Have the model call these tools, whenever it is asked next."""
        self.rounds += rounds[:2]

    @rule()
    def say_more(self):
        """Submit input: it is taken at any time."""
        words = f"number {len(self.said)}"
        self.driver.send_input(words)
        self.said.append(words)

    @rule()
    def go_on(self):
        """Call next(): it raises if, and only if, what it gave last is open."""
        is_stuck = self._is_open(self.step) and self.step.is_blocking
        if is_stuck:
            with pytest.raises(InterruptPending, match=self.step.id):
                self.driver.next()
            return
        before = self.step
        self.step = self.driver.next()
        if isinstance(before, (AfterToolResult, AwaitingInput)):
            is_same = self.step is before
            assert is_same or not self._is_open(before)

    @rule(data=st.data())
    def answer(self, data):
        """Answer something that is open, by whatever name."""
        pending = self.driver.interrupts
        if not pending:
            return
        asked = data.draw(st.sampled_from(pending))
        answer = ANSWERS.get(type(asked), "interjected")
        if isinstance(asked, ApprovalRequest):
            answer = data.draw(st.sampled_from([True, False, Approval(False)]))
        elif not asked.is_blocking:
            answer = f"number {len(self.said)}"
            self.said.append(answer)
        by_call = getattr(asked, "call_id", "") and data.draw(st.booleans())
        self.driver.answer(asked.call_id if by_call else asked.id, answer)
        self.used.append(asked)

    @rule(wrong=st.sampled_from([True, 5, None, b"", {}]))
    def answer_wrongly(self, wrong):
        """An answer that makes no sense leaves the question open."""
        for asked in self.driver.interrupts:
            is_fine = isinstance(asked, ApprovalRequest) and wrong is True
            is_fine = is_fine or (isinstance(asked, AuthRequest) and wrong is not True)
            is_fine = is_fine or (asked.is_blocking and wrong is None)
            if is_fine and not (isinstance(asked, ApprovalRequest) and wrong is None):
                continue
            with pytest.raises(ConfigurationError):
                self.driver.answer(asked.id, wrong)
            assert asked in self.driver.interrupts

    @precondition(lambda self: self.used)
    @rule(data=st.data())
    def use_again(self, data):
        """What is used up is over, for ever."""
        asked = data.draw(st.sampled_from(self.used))
        with pytest.raises(InterruptOver):
            self.driver.answer(asked.id, ANSWERS.get(type(asked), "again"))

    @rule(mode=st.sampled_from(["now", "after_tools"]), face=st.booleans())
    def cancel(self, mode, face):
        """Cancel: true if there was a run, which ends with the next step."""
        was_live = self.agent.is_running
        given = self.driver.interrupts
        cancel = self.driver.cancel if face else self.agent.cancel
        assert bool(cancel(mode=mode)) == was_live
        if not was_live:
            return
        if mode == "now":
            self.used += given
            assert self.driver.interrupts == ()
        self.step = self.driver.next()
        assert isinstance(self.step, Finished)
        assert self.step.result.cancelled

    @rule()
    def close(self):
        """Close: no run is live, and the driver is as new."""
        self.used += self.driver.interrupts
        self.driver.close()
        assert not self.agent.is_running
        self.step = None

    @rule()
    def restart(self):
        """Save, and go on with another agent, in the same place."""
        state = self.driver.snapshot().state
        self.driver.close()
        self.agent = Agent.load(state, self.agent.model, tools=self.agent.tools)
        self.driver = self.agent.drive()
        self.used, self.step = [], None

    # -- what always holds -------------------------------------------------------------

    def _is_open(self, step):
        return step in self.driver.interrupts

    @invariant()
    def nothing_said_is_lost(self):
        """Each word was heard once, or waits; and all are in order."""
        heard = [
            block.text
            for message in self.agent.messages
            if isinstance(message, UserMessage)
            for block in message.content
            if isinstance(block, Text) and block.text.startswith("number")
        ]
        waiting = [
            block.text
            for message in self.driver.snapshot().pending_input
            for block in message.content
        ]
        assert heard + waiting == self.said

    @invariant()
    def the_conversation_is_whole(self):
        """It can be sent to anybody, unless it waits for results."""
        if not self.agent.is_running and not self.agent.is_paused:
            assert complaints(self.agent.messages) == {}

    def teardown(self):
        self.driver.close()
        assert not self.agent.is_running
        self.agent.cancel()
        self.rounds.clear()
        assert complaints(self.agent.messages) == {}
        assert self.agent.run("Go on.").text == "done"


TestDriverModel = DriverModel.TestCase
TestDriverModel.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
