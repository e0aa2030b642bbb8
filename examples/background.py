"""Run an agent in the background: follow it, steer it, interrupt it, go on with it.

Run it: python examples/background.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os
import threading

from syncagent import Agent, ToolContext, tool
from syncagent.events import Lagged, StateChanged, TextDelta
from syncagent.testing import Gate, ScriptedModel, call, say


@tool
def search(what: str, ctx: ToolContext) -> str:
    """Search for something."""
    ctx.sleep(0.2)
    return f"nothing about {what}"


def follow(subscription):
    """Print what happens; it ends with the handle."""
    for event in subscription:
        if isinstance(event, TextDelta):
            print(event.text, end="", flush=True)
        elif isinstance(event, StateChanged):
            print(f"\n[{event.state} {event.tool}]".replace(" ]", "]"), end=" ")
        elif isinstance(event, Lagged):  # only if this is far too slow
            print(f"\n[{event.missed} events missed]")


def main():
    model = ScriptedModel(
        [say(call("search", {"what": "rain"})), "Perhaps snow.", Gate(), "Yes."]
    )
    agent = Agent(os.environ.get("SYNCAGENT_MODEL") or model, tools=[search])
    handle = agent.start("Will it rain?", keep_alive=True)  # returns at once
    printer = threading.Thread(target=follow, args=(handle.subscribe(),))
    printer.start()

    handle.send_input("I meant: will it snow?")  # heard after the tools that run
    handle.result()  # waits until there is nothing left to do

    handle.send_input("And tomorrow?")
    printer.join(0.5)  # the model says nothing
    handle.interrupt("never mind").wait()  # ends this run; the handle lives on
    handle.send_input("Are you there?")
    handle.result()
    handle.shutdown()  # ends the handle, and with it all that follow it
    printer.join()
    print(f"\n{handle!r}")


if __name__ == "__main__":
    main()
