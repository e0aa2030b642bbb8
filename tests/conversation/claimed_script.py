"""Processes that all load the same states, claim them and resume them.

Each notes what it has got, one line at a time, in a ledger that all append to.
"""

import multiprocessing
import os
import signal
import sys
from pathlib import Path

import msgspec

from syncagent import Agent, ToolContext, tool
from syncagent.exceptions import ConfigurationError, StateTaken
from syncagent.testing import ScriptedModel

FORKS = multiprocessing.get_context("fork")


def note(ledger, *words):
    """Append a line, in one call: all of it or nothing, whenever this is killed."""
    file = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, f"{' '.join(map(str, words))}\n".encode())
    os.close(file)


def read_states(folder):
    """Return the states to load, each with its number."""
    return enumerate(msgspec.json.decode((folder / "states").read_bytes()))


def paying(ledger):
    """Return a tool whose effect is a line in the ledger."""

    @tool(requires_approval=True)
    def pay(order: int, ctx: ToolContext) -> str:
        """Pay an order."""
        note(ledger, "paid", order)
        return "paid"

    return pay


def load(folder, state):
    """Load a state and claim it; return None if another process has it."""
    tools, model = [paying(folder / "ledger")], ScriptedModel(lambda messages: "Done.")
    try:
        return Agent.load(state, model, tools=tools, claim=folder / "claims")
    except StateTaken:
        return None


def work(folder, barrier):
    """Load each state at the same moment as all others, and resume what is ours."""
    for number, state in read_states(folder):
        barrier.wait(20)
        agent = load(folder, state)
        if agent is None:
            note(folder / "ledger", "taken", number)
            continue
        note(folder / "ledger", "won", number)
        agent.resume({question.id: True for question in agent.interrupts})


def race(folder, count):
    """Have so many processes load all states."""
    barrier = FORKS.Barrier(int(count))
    arguments = (folder, barrier)
    crowd = [FORKS.Process(target=work, args=arguments) for _ in range(int(count))]
    for process in crowd:
        process.start()
    for process in crowd:
        process.join(60)
    assert [process.exitcode for process in crowd] == [0] * len(crowd)


def gather(folder, writable):
    """Load all states in turn, and say so after each."""
    for number, state in read_states(folder):
        if load(folder, state) is not None:
            note(folder / "ledger", "won", number)
        os.write(writable, b".")


def storm(folder, kills):
    """Kill a pair of processes again and again, each at another moment."""
    kills, total = int(kills), len(list(read_states(folder)))
    for number in range(kills + 1):
        readable, writable = os.pipe()
        pair = [FORKS.Process(target=gather, args=(folder, writable)) for _ in range(2)]
        for process in pair:
            process.start()
        os.close(writable)
        # The moment differs from round to round, and by what the machine does besides.
        for _ in range(total * number // kills if number < kills else 3 * total):
            if not os.read(readable, 1):
                break
        for process in pair:
            if number < kills:
                os.kill(process.pid, signal.SIGKILL)
            process.join(60)
        os.close(readable)
    assert [process.exitcode for process in pair] == [0, 0]


def full(folder):
    """Load states until the disk is full; print how many, and the error."""
    for number, state in read_states(folder):
        try:
            load(Path("."), state)
        except ConfigurationError as error:
            left = sorted(os.listdir("claims"))
            print(msgspec.json.encode([number, str(error), len(left)]).decode())
            return


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
