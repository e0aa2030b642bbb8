"""Tools that end with their run: they wait through their context, or register an end.

Run it: python examples/tools_that_cooperate.py
With a real model: Agent("openai:gpt-6-luna", tools=[watch, query, program])
"""

import sqlite3
import threading

from syncagent import Agent, ToolContext, tool
from syncagent.testing import ScriptedModel, call, say

ENDLESS = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT max(i) FROM n"
)


@tool
def watch(seconds: float, ctx: ToolContext) -> str:
    """Watch for a while: every wait of the context ends with the run."""
    ctx.sleep(seconds)
    return "nothing happened"


@tool
def count(ctx: ToolContext) -> int:
    """Count in a loop: looking at the context costs next to nothing."""
    number = 0
    while number < 10**12:
        number += 1
        ctx.checkpoint()
    return number


@tool
def query(ctx: ToolContext) -> str:
    """Ask a database: the cancel interrupts it, on another thread."""
    database = sqlite3.connect(":memory:", check_same_thread=False)
    ctx.on_cancel(database.interrupt)
    return str(database.execute(ENDLESS).fetchall())


@tool
def program(ctx: ToolContext) -> str:
    """Run a program: the cancel ends it, with all that it has started."""
    return ctx.run_process(["sh", "-c", "echo begun; sleep 3600"]).stdout


def main():
    for each in (watch, count, query, program):
        arguments = {"seconds": 3600} if each is watch else {}
        agent = Agent(ScriptedModel([say(call(each.name, arguments))]), tools=[each])
        threading.Timer(0.3, agent.cancel).start()
        result = agent.run("Go.")
        outcome, latency = result.tool_outcomes[0], result.cancellation.latency
        print(f"{each.name:8} {outcome.outcome}, {latency * 1e3:.2f} ms after cancel()")


if __name__ == "__main__":
    main()
