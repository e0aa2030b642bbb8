"""Every place where a run can be stuck, and how to get it there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.agent_tools import sit
from syncagent import Agent, CancelToken, RunResult, tool
from syncagent.cancel import Receipt
from syncagent.events import TextDelta, ToolProgress
from syncagent.models import OpenAIChat
from syncagent.tools.context import ToolContext

#: What the server does, and the phase in which the run is then.
STREAMS: Final = {
    "waiting for headers": ("silent", "headers"),
    "before the first event": ("head", "first event"),
    "a silent stream": ("stall-3", "stream"),
    "a flowing stream": ("flow", "stream"),
    "the wait before a retry": ("busy", "retry"),
}
#: Seconds after which something is wrong.
LONG: Final = 20.0
_PAUSE: Final = threading.Event()  # never set

MakeModel = Callable[[str], OpenAIChat]


@dataclass(frozen=True)
class Place:
    """One place to be stuck in.

    :param phase: what the run says that it is doing then.
    :param floor: what it is compared with.
    :param make: makes the agent that gets there.
    :param path: what the server is asked to do there, if it is asked.
    :param is_process: has a process to be killed?
    :param is_queue: is it behind another run of the same agent?
    """

    name: str
    phase: str
    floor: str
    make: Callable[[Stuck], Agent]
    path: str = ""
    is_process: bool = False
    is_queue: bool = False


class Stuck:
    """A run on its way to its place."""

    def __init__(self, place: Place) -> None:
        self._place = place
        #: Set when it is there.
        self.there = threading.Event()
        #: Set when all is over, for those that have been left behind.
        self.over = threading.Event()
        self._result: RunResult | None = None
        self._receipt: Receipt | None = None
        self._settings: dict[str, Any] = {}
        self._first: threading.Thread | None = None
        self._agent = place.make(self)
        if place.is_queue:
            self._settings = {"cancel": CancelToken(), "on_busy": "queue"}
            self._first = threading.Thread(target=self._agent.run, args=("go",))
            self._first.start()
            self.there.wait(LONG)

    def run(self) -> None:
        """Be stuck."""
        self._result = self._agent.run("go", **self._settings)

    def wait_until_there(self) -> None:
        """Block until the run is stuck, or about to be."""
        assert self._place.path or self.there.wait(LONG), self._place.name
        end = time.monotonic() + LONG
        while self._place.path and self._phase() != self._place.phase:
            assert time.monotonic() < end, self._place.name
            _PAUSE.wait(0.0002)

    def _phase(self) -> str:
        live = self._agent._conversation.slot.live
        return "" if live is None else live.phase

    def cancel(self) -> None:
        """Cancel it; in a queue there is only the token of one's own for that."""
        token = self._settings.get("cancel")
        if token is None:
            self._receipt = self._agent.cancel()
        else:
            token.cancel()

    def check(self) -> None:
        """See that it was stuck where it should have been, and end everything."""
        assert self._result is not None
        assert self._result.cancellation is not None, self._place.name
        phase = (self._receipt or self._result.cancellation).phase
        assert phase == self._place.phase, f"{self._place.name}: in phase {phase}"
        self.over.set()
        if self._first is not None:
            self._agent.cancel()
            self._first.join(LONG)


class Announce:
    """A hook that says when words, or a tool's progress, are there."""

    def __init__(self, stuck: Stuck) -> None:
        self._there = stuck.there

    def on_event(self, event: object) -> None:
        if isinstance(event, (TextDelta, ToolProgress)):
            self._there.set()


def places(server: str) -> Iterator[Place]:
    """Yield them all."""

    def model(path: str) -> OpenAIChat:
        return OpenAIChat("fake", base_url=f"{server}/{path}/v1", api_key="none")

    for name, (path, phase) in STREAMS.items():
        yield Place(name, phase, "by hand", _agent_of(model(path)), path)
    yield from persons(model)
    yield from tools(model)


def _agent_of(model: OpenAIChat) -> Callable[[Stuck], Agent]:
    return lambda _: Agent(model)


def persons(model: MakeModel) -> Iterator[Place]:
    """Yield the places where somebody is asked."""
    asked = model("call-act")

    def wait(stuck: Stuck) -> bool:
        stuck.there.set()
        return stuck.over.wait(LONG)

    def approval(stuck: Stuck) -> Agent:
        @tool(name="act", requires_approval=True)
        def act() -> None:
            """Do nothing."""

        return Agent(asked, tools=[act], approve=lambda _: wait(stuck))

    yield Place("an approval", "approval", "token", approval)

    def question(stuck: Stuck) -> Agent:
        @tool(name="act")
        def act(ctx: ToolContext) -> str:
            return ctx.ask("Really?")

        return Agent(asked, tools=[act], ask=lambda _: str(wait(stuck)))

    yield Place("a question to the user", "input", "token", question)


def tools(model: MakeModel) -> Iterator[Place]:
    """Yield the places where a tool runs."""
    asked = model("call-act")

    def waits(stuck: Stuck) -> Agent:
        @tool(name="act")
        def act(ctx: ToolContext) -> None:
            stuck.there.set()
            ctx.wait()
            ctx.checkpoint()

        return Agent(asked, tools=[act])

    yield Place("a tool in ctx.wait()", "tool", "token", waits)
    yield Place("the queue of a busy agent", "queue", "token", waits, is_queue=True)

    def delegates(stuck: Stuck) -> Agent:
        @tool(name="act")
        def act(ctx: ToolContext) -> str:
            inner = Agent(model("stall-3"), hooks=[Announce(stuck)])
            text: str = ctx.agent(inner, "go").text
            return text

        return Agent(asked, tools=[act])

    yield Place("a sub-agent, silent stream", "agent", "by hand", delegates)

    with TemporaryDirectory() as folder:
        yield program(asked, Path(folder))

    def process(stuck: Stuck) -> Agent:
        act = tool(name="act", on_cancel="kill")(sit)
        return Agent(asked, tools=[act], hooks=[Announce(stuck)])

    yield Place("a process tool, killed", "tool", "python", process, is_process=True)


def program(asked: OpenAIChat, folder: Path) -> Place:
    """Return the place where a tool runs a program."""

    def runs(stuck: Stuck) -> Agent:
        begun = folder / str(id(stuck))

        @tool(name="act")
        def act(ctx: ToolContext) -> None:
            ctx.run_process(["sh", "-c", f"echo > {begun}; exec sleep 600"])

        threading.Thread(target=wait_for_file, args=(begun, stuck.there)).start()
        return Agent(asked, tools=[act])

    return Place("ctx.run_process()", "tool", "program", runs, is_process=True)


def wait_for_file(path: Path, there: threading.Event) -> None:
    end = time.monotonic() + LONG
    while not path.exists() and time.monotonic() < end:
        _PAUSE.wait(0.0005)
    path.unlink()
    there.set()
