"""Kill the worker of a run, and another one resumes it; stop a run from a third.

Run it: python examples/several_processes.py
With a real model: return Agent("openai:gpt-6-luna", tools=[charge]) from make_agent.
"""

import sys
import tempfile
from subprocess import PIPE, Popen

from syncagent import Agent, ToolContext, tool
from syncagent.events import Resumed, ToolFinished, ToolStarted
from syncagent.stores import RunStore
from syncagent.testing import ScriptedModel, call, say


@tool
def charge(name: str, ctx: ToolContext) -> str:
    """Charge a customer."""
    ctx.sleep(60 if name == "Bob" else 0)  # the worker is killed here
    return f"{name} has paid"


def make_agent(run):
    calls = [call("charge", {"name": name}, name) for name in run.labels["names"]]
    model = ScriptedModel(lambda said: say(*calls) if len(said) == 1 else "Ask Bob.")
    return Agent(model, tools=[charge])


def work(url):
    with RunStore(url, make_agent, lease=1) as store:
        store.open()  # from now on it also takes over the runs of dead workers
        for line in sys.stdin:  # a pipe carries the ids of runs to this worker
            store.work(line.strip())


def main(url, workers):
    store = RunStore(url, enqueue=lambda run: print(run.id, file=workers[0].stdin))
    with store:
        id = store.submit("Charge all.", labels={"names": ["Ada", "Bob", "Cid"]})
        for event in store.events(id):
            if isinstance(event, (ToolStarted, ToolFinished, Resumed)):
                print(type(event).__name__, getattr(event, "call_id", ""))
            if isinstance(event, ToolStarted) and event.call_id == "Bob":
                workers.pop(0).kill()  # -9, in the middle of a tool
        print([each.outcome for each in store.get(id).result.tool_outcomes])
        id = store.submit("Charge Bob.", labels={"names": ["Bob"]})
        next(event for event in store.events(id) if isinstance(event, ToolStarted))
        store.cancel(id, "wrong customer").wait(10)  # here, while it runs there
        print(store.get(id).state)


if __name__ == "__main__" and sys.argv[1:]:
    work(sys.argv[1])
elif __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, f"sqlite:///{folder}/runs.db"]
        first, second = (Popen(command, 1, stdin=PIPE, text=True) for _ in range(2))
        with first, second:
            main(command[-1], [first, second])
