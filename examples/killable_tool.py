"""A tool that looks at nothing: killed with its process, or left behind on its thread.

Run it: python examples/killable_tool.py
With a real model: Agent("openai:gpt-6-luna", tools=[loop, sleep])
"""

import threading
import time

from syncagent import Agent, abandoned, tool
from syncagent.testing import ScriptedModel, call, say


@tool(on_cancel="kill")
def loop() -> None:
    """Loop for ever, in a warm process of its own, which a cancel kills."""
    while True:
        pass


@tool(on_cancel="kill", timeout=0.3)
def slow() -> None:
    """Take far too long: a timeout ends it, and the model is told."""
    time.sleep(3600)  # nothing can wake it


@tool(on_cancel="abandon", grace=0.1)
def sleep() -> None:
    """Block in a call without an end, on a thread of its own, which is left behind."""
    time.sleep(60)


def main():
    for each in (loop, sleep):
        agent = Agent(ScriptedModel([say(call(each.name)), "Hm."]), tools=[each])
        threading.Timer(0.5, agent.cancel).start()
        result = agent.run("Go.")
        outcome, latency = result.tool_outcomes[0], result.cancellation.latency
        print(f"{each.name}: {outcome.outcome}, {latency * 1e3:.2f} ms after cancel()")
    # What still runs is listed, never hidden, and does not keep Python from exiting.
    print("still running:", [left.name for left in abandoned()])

    agent = Agent(ScriptedModel([say(call("slow")), "It was too slow."]), tools=[slow])
    result = agent.run("Go.")  # nobody cancels: only the tool has a deadline
    print(f"slow: {result.tool_outcomes[0].outcome}; the model goes on: {result.text}")


if __name__ == "__main__":
    main()
