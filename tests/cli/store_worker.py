"""A process that works on the runs of a store: python store_worker.py URL.

Each line of its input is a prompt, as JSON with options of ``submit()``; it writes the
id of the run. It ends with its input. The model is that of the environment.
"""

import json
import sys

from syncagent import Agent, ToolContext, tool
from syncagent.exceptions import Declined
from syncagent.stores import RunStore


@tool(requires_approval=True)
def launch(what: str) -> str:
    """Launch it."""
    return f"launched {what}"


@tool
def ask(question: str, ctx: ToolContext) -> str:
    """Ask the user."""
    return f"the user said {ctx.ask(question)}"


@tool
def book(ctx: ToolContext) -> str:
    """Ask with a form."""
    fields = {"name": {"type": "string"}, "seats": {"type": "integer", "default": 2}}
    form = {"type": "object", "properties": fields, "required": ["name"]}
    try:
        return f"booked {ctx.ask('Which table?', form=form)}"
    except Declined:
        return "not booked"


def make_agent(run):
    return Agent("openai-chat:fake", tools=[launch, ask, book], name=run.agent)


def main():
    # So long a lease that only hints, and no beat, make it look.
    with RunStore(sys.argv[1], make_agent, lease=300.0) as store:
        store.open()
        print("ready", flush=True)
        for line in sys.stdin:
            print(store.submit(**json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
