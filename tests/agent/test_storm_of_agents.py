"""Many agents in many threads on one server, with everything going wrong at random."""

import random
import re
import sys
import threading
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from support.contents import json_of
from support.threads import together
from support.two_rounds import on_server

from syncagent import (
    Agent,
    CancelToken,
    Limits,
    SyncAgentError,
    ToolContext,
    abandoned,
    tool,
)
from syncagent.models import OpenAIChat
from syncagent.testing import (
    Broken,
    Delay,
    Drop,
    FakeServer,
    Send,
    Stall,
    Status,
    call,
    complaints,
    say,
)
from syncagent.transport import Retries, close_idle

pytestmark = pytest.mark.slow

LONG = 300.0


@pytest.fixture(autouse=True)
def nothing_idle():
    """No connection outlives its test."""
    yield
    close_idle()


@contextmanager
def switching_often():
    """Have threads take turns a hundred times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(before / 100)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class Size(NamedTuple):
    """How big a storm is."""

    threads: int
    runs: int


#: In all: runs, by how they ended.
SHORT = Size(threads=24, runs=12)
FULL = Size(threads=200, runs=150)


@tool
def echo(word: str, ctx: ToolContext) -> str:
    """Say a word, after a moment."""
    ctx.sleep(random.random() * 0.002)
    return word


@tool
def fails(word: str) -> str:
    """Fail."""
    raise RuntimeError(word)


def reply(request):
    """Answer with the caller's own word, call tools with it, or do something bad."""
    messages = request.payload["messages"]
    last = messages[-1]
    asked = next(m for m in reversed(messages) if m["role"] == "user")
    word = text_of(asked).split()[-1]
    if last["role"] == "user" and random.random() < 0.5:
        name = random.choice(["echo", "echo", "fails", "unknown"])
        return say("Wait.", call(name, {"word": word}, f"call_{random.random()}"))
    acts = random.choices(
        [
            [Send()],
            [Send(2), Stall()],
            [Stall()],
            [Delay(0.001), Send(3), Drop()],
            [Send(2), Broken()],
            [Status(503, headers={"retry-after": "0"})],
        ],
        weights=[70, 6, 6, 6, 6, 6],
    )[0]
    return say(f"You said {word}", acts=acts)


def text_of(message):
    content = message["content"]
    return content if isinstance(content, str) else content[-1]["text"]


class Storm:
    """What happens to the agents of one thread, and what came of it."""

    def __init__(self, model):
        self.model = model
        self.ends = {}
        self.cancels = 0

    def one_thread(self, name, runs):
        """Run agents; each word must come back to whoever said it."""
        chance = random.Random(name)
        agent = self.make_agent(chance)
        for number in range(runs):
            word = f"w{name}x{number}"
            self.one_run(agent, word, chance)
            assert not agent.is_running
            if chance.random() < 0.2:
                agent = self.make_agent(chance)
        assert complaints(agent.messages) == {}
        heard = set(re.findall(r"\bw(\d+)x\d", json_of(agent.messages)))
        assert heard <= {str(name)}, "somebody else's words"

    def make_agent(self, chance):
        return Agent(
            self.model,
            tools=[echo, fails],
            parallel_tools=chance.choice([1, 3]),
            limits=Limits(turns=6, stall_seconds=5),
        )

    def one_run(self, agent, word, chance):
        """Run once, with a canceller, a deadline, both or neither."""
        receipts = []
        canceller = threading.Thread(
            target=lambda: receipts.append(cancel_soon(agent, chance.random() * 0.01))
        )
        is_cancelled = chance.random() < 0.7
        timeout = chance.random() * 0.02 if chance.random() < 0.3 else None
        stalls = None if is_cancelled or timeout else 0.5
        if is_cancelled:
            canceller.start()
        try:
            result = agent.run(f"Say {word}", timeout=timeout or stalls or 5.0)
        except SyncAgentError as error:
            result = None
            self.count(type(error).__name__)
        if is_cancelled:
            canceller.join(LONG)
            self.check_receipt(receipts[0], result)
        if result is not None:
            self.count(result.stop_reason)
            if result.stop_reason == "end_turn":
                assert result.text == f"You said {word}", "somebody else's answer"

    def check_receipt(self, receipt, result):
        """Promise 3: true if and only if the run was live, and then it is cancelled."""
        self.cancels += 1
        assert receipt.wait(LONG)
        if receipt:
            assert result is not None, "an error came out of a run that was cancelled"
            assert result.cancelled
        if receipt.first:
            assert result.cancellation.reason == "storm"

    def count(self, end):
        self.ends[end] = self.ends.get(end, 0) + 1


def cancel_soon(agent, seconds):
    """Cancel after a moment, wherever the run is then."""
    CancelToken().wait(seconds)
    return agent.cancel("storm")


def storm(size):
    with FakeServer(reply) as server, switching_often():
        retries = Retries(limit=2, first_delay=0.001)
        model = on_server(OpenAIChat, server, retries=retries)
        storms = [Storm(model) for _ in range(size.threads)]
        together(
            *[
                lambda one=one, name=name: one.one_thread(name, size.runs)
                for name, one in enumerate(storms)
            ],
            timeout=LONG,
        )
    ends = {}
    for one in storms:
        for end, times in one.ends.items():
            ends[end] = ends.get(end, 0) + times
    return ends


def test_a_storm_of_agents():
    """Promises 2 to 9, all at once: no hang, no leak, no lie, no cross-talk."""
    ends = storm(SHORT)
    assert ends["cancelled"] > 10
    assert ends["end_turn"] > 10
    assert abandoned() == ()


@pytest.mark.stress
def test_a_long_storm_of_agents():
    """The same with 200 threads and tens of thousands of runs."""
    ends = storm(FULL)
    assert sum(ends.values()) == FULL.threads * FULL.runs
    assert abandoned() == ()
