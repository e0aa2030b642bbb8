"""A process that works on the runs of a store: python store_worker.py URL.

Each line of its input is a prompt, as JSON with options of ``submit()``; it writes the
id of the run. It ends with its input. The model is that of the environment.
"""

import json
import sys

from syncagent import Agent, ToolContext, tool
from syncagent.stores import RunStore


@tool(requires_approval=True)
def launch(what: str) -> str:
    """Launch it."""
    return f"launched {what}"


@tool
def ask(question: str, ctx: ToolContext) -> str:
    """Ask the user."""
    return f"the user said {ctx.ask(question)}"


def make_agent(run):
    return Agent("openai-chat:fake", tools=[launch, ask], name=run.agent)


def main():
    # So long a lease that only hints, and no beat, make it look.
    with RunStore(sys.argv[1], make_agent, lease=300.0) as store:
        store.open()
        print("ready", flush=True)
        for line in sys.stdin:
            print(store.submit(**json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
