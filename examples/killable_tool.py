"""A tool that looks at nothing: killed with its process, or left behind on its thread.

Run it: python examples/killable_tool.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os
import threading
import time

from syncagent import Agent, ToolStarted, abandoned, tool
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
    real = os.environ.get("SYNCAGENT_MODEL")
    for each in (loop, sleep):
        agent = Agent(real or ScriptedModel([say(call(each.name))]), tools=[each])
        stream = agent.stream(f"Call the tool {each.name}.")
        for event in stream:
            if isinstance(event, ToolStarted):
                threading.Timer(0.5, agent.cancel).start()
        for ended in stream.result.tool_outcomes:
            latency = stream.result.cancellation.latency * 1e3
            print(f"{each.name}: {ended.outcome}, {latency:.2f} ms after cancel()")
    # What still runs is listed, never hidden, and does not keep Python from exiting.
    print("still running:", [left.name for left in abandoned()])

    script = ScriptedModel([say(call("slow")), "It was too slow."])
    agent = Agent(real or script, tools=[slow])
    result = agent.run("Call slow.")  # nobody cancels: only the tool has a deadline
    print([f"slow: {each.outcome}" for each in result.tool_outcomes])
    print("the model goes on:", result.text)


if __name__ == "__main__":
    main()
