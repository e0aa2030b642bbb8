"""Processes that are killed at each event in turn, and others that go on.

For every event at which a state is saved a child is forked, which kills itself there,
and then another one, which loads what the first has saved, and goes on to the end. What
tools have done is in a file, one line for each time.
"""

import os
import signal
import sys
from pathlib import Path

import msgspec

from syncagent import Agent, ToolContext, tool
from syncagent.events import InterruptRaised, ToolFinished, ToolStarted, TurnFinished
from syncagent.messages import ToolMessage
from syncagent.testing import ScriptedModel, call, complaints, say

SAVED = (ToolStarted, ToolFinished, TurnFinished, InterruptRaised)
ROUNDS = [
    say("First.", call("pay", {"amount": 1}, "p1"), call("note", {"what": "a"}, "n1")),
    say(call("pay", {"amount": 2}, "p2"), call("pay", {"amount": 3}, "p3")),
    say(call("confirm", {}, "q1"), call("note", {"what": "b"}, "n2")),
    "All is done.",
]


def reply(messages):
    """Answer by how many rounds there were."""
    return ROUNDS[sum(isinstance(message, ToolMessage) for message in messages)]


class Shop:
    """Tools with effects, a state that is saved, and an end that comes at any time."""

    def __init__(self, folder, kill_at=0, inside=""):
        self.folder = Path(folder)
        self._left = kill_at
        self._inside = inside
        self.agent = None
        #: The calls that are being made.
        self.began = set()
        self.waits_in_place = False

    def effect(self, ctx):
        """Do what must not be done twice."""
        self._die("before", ctx)
        with open(self.folder / "ledger", "a", encoding="ascii") as file:
            file.write(f"{ctx.call_id} {ctx.idempotency_key}\n")
        self._die("after", ctx)

    def _die(self, when, ctx):
        if self._inside == f"{when} {ctx.call_id}":
            os.kill(os.getpid(), signal.SIGKILL)

    def tools(self, **settings):
        """Return one that is to be done once, and one that may be done again."""

        @tool(requires_approval=True, **settings)
        def pay(amount: int, ctx: ToolContext) -> str:
            """Pay."""
            self.effect(ctx)
            return f"paid {amount}"

        @tool(idempotent=True, **settings)
        def note(what: str, ctx: ToolContext) -> str:
            """Note something."""
            self.effect(ctx)
            return f"noted {what}"

        @tool(**settings)
        def confirm(ctx: ToolContext) -> str:
            """Ask, and then do it."""
            answer = ctx.ask("Really?")
            self.effect(ctx)
            return answer

        return [pay, note, confirm]

    def on_event(self, event):
        """Save the state, and end here if it is time."""
        if not isinstance(event, SAVED):
            return
        if isinstance(event, ToolStarted):
            self.began.add(event.call_id)
        elif isinstance(event, ToolFinished):
            self.began.discard(event.call_id)
        elif isinstance(event, InterruptRaised) and not self.waits_in_place:
            # A tool that asks has ended, and is called again with the answer.
            self.began -= {each.call_id for each in event.interrupts}
        new = self.folder / "state.new"
        new.write_bytes(msgspec.json.encode([self.agent.save(), sorted(self.began)]))
        new.replace(self.folder / "state")
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def go_on(agent):
    """Answer with yes whatever it waits for, until nothing does."""
    result = None
    while agent.is_paused:
        given = {
            each.id: "yes" if hasattr(each, "question") else True
            for each in agent.interrupts
        }
        result = agent.resume(given)
    return result


def begin(shop, face, **settings):
    """Run from the begin to the end, if it comes to that."""
    width = 3 if settings else 1
    handlers = {}
    if face == "handler":
        handlers = {"approve": lambda request: True, "ask": lambda question: "yes"}
        shop.waits_in_place = True
    shop.agent = Agent(
        ScriptedModel(reply),
        tools=shop.tools(**settings),
        hooks=[shop],
        parallel_tools=width,
        **handlers,
    )
    shop.agent.run("Go.")
    go_on(shop.agent)


def finish(shop, **settings):
    """Load what was saved, go on to the end, and leave what came of it in a file."""
    state, _ = msgspec.json.decode((shop.folder / "state").read_bytes())
    shop.agent = Agent.load(state, ScriptedModel(reply), tools=shop.tools(**settings))
    # The last of its events may have been before the very end, and nothing waits.
    result = go_on(shop.agent)
    found = {
        "stop": "end_turn" if result is None else result.stop_reason,
        "text": shop.agent.messages[-1].text,
        "complaints": complaints(shop.agent.messages),
        "told": [
            (each.call_id, each.is_error)
            for message in shop.agent.messages
            if isinstance(message, ToolMessage)
            for each in message.content
        ],
    }
    (shop.folder / "result").write_bytes(msgspec.json.encode(found))


def fork(work):
    """Do *work* in a child; return the signal that has ended it, 0 if none has."""
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL), status
    return -status


def report(folder):
    """Return what one pair of processes has left."""
    found = msgspec.json.decode((folder / "result").read_bytes())
    ledger = folder / "ledger"
    lines = ledger.read_text(encoding="ascii") if ledger.exists() else ""
    _, began = msgspec.json.decode((folder / "state").read_bytes())
    return {**found, "ledger": lines.splitlines(), "began": began}


def attempt(folder, at, inside, face, settings):
    """Have one process killed, and another go on; return what they have left."""
    folder.mkdir()
    killed = fork(lambda: begin(Shop(folder, at, inside), face, **settings))
    fork(lambda: finish(Shop(folder), **settings))
    return {"inside": inside, "killed": killed != 0, **report(folder)}


def main(path, face, isolation):
    """Kill inside of some tools, and at each event; print what came of it."""
    settings = {} if isolation == "here" else {"isolation": isolation}
    done = []
    for name in ("p2", "n1", "q1"):
        for when in ("before", "after"):
            inside = f"{when} {name}"
            folder = Path(path) / inside
            done.append(attempt(folder, 0, inside, face, settings))
    for number in range(1, 100):
        folder = Path(path) / str(number)
        done.append(attempt(folder, number, "", face, settings))
        if not done[-1]["killed"]:
            break
    print(msgspec.json.encode(done).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
