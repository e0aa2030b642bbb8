"""Tools that end with their run: by looking, by being interrupted, by being killed.

Run it: python examples/tools_that_stop.py
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
def query(ctx: ToolContext) -> str:
    """Ask a database: the cancel interrupts it, on another thread."""
    database = sqlite3.connect(":memory:", check_same_thread=False)
    ctx.on_cancel(database.interrupt)
    return str(database.execute(ENDLESS).fetchall())


@tool
def program(ctx: ToolContext) -> str:
    """Run a program: the cancel ends it, with all that it has started."""
    return ctx.run_process(["sh", "-c", "echo begun; sleep 3600"]).stdout


@tool(on_cancel="kill")
def loop() -> None:
    """Look at nothing at all: it runs in a process of its own, which is killed."""
    while True:
        pass


def main():
    tools = [watch, query, program, loop]
    for name in ("watch", "query", "program", "loop"):
        arguments = {"seconds": 3600} if name == "watch" else {}
        agent = Agent(ScriptedModel([say(call(name, arguments))]), tools=tools)
        threading.Timer(0.3, agent.cancel).start()
        result = agent.run("Go.")
        outcome, latency = result.tool_outcomes[0], result.cancellation.latency
        print(f"{name:8} {outcome.outcome}, {latency * 1e3:.2f} ms after cancel()")


if __name__ == "__main__":
    main()
