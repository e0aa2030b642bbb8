"""Everything at once, for a long time: nothing is lost, and nothing grows."""

import os
import random
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from syncagent import Agent, SyncAgentError, ToolContext, tool
from syncagent.models import Anthropic, OpenAIChat
from syncagent.testing import (
    Broken,
    Drop,
    FakeServer,
    Send,
    Stall,
    Status,
    call,
    complaints,
    say,
)
from syncagent.tools.processes import pool
from syncagent.transport import close_idle

#: Minutes; SOAK_MINUTES sets another number.
MINUTES = float(os.environ.get("SOAK_MINUTES", "20"))
THREADS = 6


@tool
def nap(ctx: ToolContext) -> str:
    """Sleep for a moment."""
    ctx.sleep(random.random() * 0.02)
    return "slept"


@tool(on_cancel="abandon", grace=0.0)
def stubborn() -> str:
    """Sleep, whatever the token says."""
    threading.Event().wait(0.01)
    return "woke"


@tool(on_cancel="kill")
def compute(number: int) -> int:
    """Compute in a process."""
    return sum(range(number))


@tool
def program(ctx: ToolContext) -> str:
    """Run a program."""
    return str(ctx.run_process(["sh", "-c", "sleep 0.01; echo done"]).exit_code)


CALLS = [
    call("nap"),
    call("stubborn"),
    call("compute", {"number": 2000}),
    call("program"),
]


def reply(request):
    """Respond well most of the time, and badly in every way for the rest of it."""
    has_result = "result" in str(request.payload["messages"][-1])
    if not has_result and random.random() < 0.4:
        wish = random.choice(CALLS)
        return say("Wait.", call(wish.name, wish.arguments, f"call_{random.random()}"))
    acts = random.choices(
        [
            [Send()],
            [Send(2), Stall()],
            [Stall(before_headers=True)],
            [Send(3), Drop()],
            [Send(2), Broken()],
            [Status(503, headers={"retry-after": "0"})],
            [Status(400)],
        ],
        weights=[70, 6, 6, 4, 4, 6, 4],
    )[0]
    return say("A few words of text", acts=acts)


class Worker:
    """The runs of one thread, each cancelled at a random moment, or not at all."""

    def __init__(self, server, until):
        self.runs = self.hits = 0
        self.problems = []
        self._until = until
        self._server = server
        self._models = [
            kind("fake", base_url=server.base_url, api_key="any", retries=1)
            for kind in (OpenAIChat, Anthropic)
        ]

    def work(self):
        while time.monotonic() < self._until and not self.problems:
            try:
                self.one_agent()
            except BaseException as error:
                self.problems.append(repr(error))

    def one_agent(self):
        tools = [nap, stubborn, compute, program]
        agent = Agent(random.choice(self._models), tools=tools)
        for _ in range(5):
            receipts = []
            timer = threading.Timer(random.random() * 0.05, cancel, [agent, receipts])
            timer.start()
            cancelled = False
            try:
                # The timeout ends what stalls if the cancel came too early.
                cancellation = agent.run("go", timeout=2.0).cancellation
                cancelled = cancellation is not None and cancellation.origin == "user"
            except SyncAgentError:
                pass
            timer.join()
            self.runs += 1
            self._server.requests.clear()  # they would be all that grows
            self._server.hang_ups.clear()
            is_hit = bool(receipts[0])
            self.hits += is_hit
            if is_hit != cancelled:
                self.problems.append(f"receipt {is_hit}, cancelled {cancelled}")
            if complaints(agent.messages):
                self.problems.append(str(complaints(agent.messages)))


def cancel(agent, receipts):
    receipts.append(agent.cancel("soak"))


def measures():
    """Return descriptors, threads, children and resident KiB of this process."""
    own = Path("/proc/self")
    pages = int((own / "statm").read_text().split()[1])
    zombies = 0
    for task in (own / "task").iterdir():
        with suppress(OSError):  # a thread, or a child, may end at any moment
            for child in (task / "children").read_text().split():
                zombies += ") Z" in Path(f"/proc/{child}/stat").read_text()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "zombies": zombies,
        "KiB": pages * 4,
    }


@pytest.mark.stress
@pytest.mark.timeout(60 * MINUTES + 300)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_nothing_grows():
    """Promises 3, 4 and 7: exact receipts, valid transcripts, nothing left."""
    end = time.monotonic() + 60 * MINUTES
    with FakeServer(reply) as server:
        workers = [Worker(server, end) for _ in range(THREADS)]
        threads = [threading.Thread(target=worker.work) for worker in workers]
        for thread in threads:
            thread.start()
        threads[0].join(60 * MINUTES / 2)
        half = measures()
        for thread in threads:
            thread.join()
        close_idle()
        pool.close_idle()
    after = measures()
    runs = sum(worker.runs for worker in workers)
    hits = sum(worker.hits for worker in workers)
    print(f"{runs} runs, {hits} cancelled; half: {half}; after: {after}")
    assert [problem for worker in workers for problem in worker.problems] == []
    assert hits > 0
    assert after["zombies"] == 0
    assert after["descriptors"] <= half["descriptors"]
    assert after["threads"] <= half["threads"]
    assert after["KiB"] <= half["KiB"] * 1.2 + 20_000
