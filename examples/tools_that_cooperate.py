"""Tools that end with their run: they wait through their context, or register an end.

Run it: python examples/tools_that_cooperate.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os
import sqlite3
import threading

from syncagent import Agent, ToolContext, ToolStarted, tool
from syncagent.testing import ScriptedModel, call, say

SQL = "WITH RECURSIVE n AS (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT count(*) FROM n"


@tool
def watch(ctx: ToolContext) -> str:
    """Watch for an hour: every wait of the context ends with the run."""
    ctx.sleep(3600)
    return "nothing happened"


@tool
def count(ctx: ToolContext) -> None:
    """Count in a loop: looking at the context costs next to nothing."""
    for _ in range(10**12):
        ctx.checkpoint()


@tool
def query(ctx: ToolContext) -> str:
    """Ask a database: the cancel interrupts it, on another thread."""
    database = sqlite3.connect(":memory:", check_same_thread=False)
    ctx.on_cancel(database.interrupt)
    return str(database.execute(SQL).fetchall())


@tool
def program(ctx: ToolContext) -> str:
    """Run a program: the cancel ends it, with all that it has started."""
    return ctx.run_process(["sh", "-c", "echo begun; sleep 3600"]).stdout


def main():
    real = os.environ.get("SYNCAGENT_MODEL")
    for each in (watch, count, query, program):
        agent = Agent(real or ScriptedModel([say(call(each.name))]), tools=[each])
        stream = agent.stream(f"Call the tool {each.name}.")
        for event in stream:
            if isinstance(event, ToolStarted):
                threading.Timer(0.3, agent.cancel).start()
        for ended in stream.result.tool_outcomes:
            latency = stream.result.cancellation.latency * 1e3
            print(f"{each.name:8} {ended.outcome}, {latency:.2f} ms after cancel()")


if __name__ == "__main__":
    main()
