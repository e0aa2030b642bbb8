"""Many runs in the background: find them, cancel one, drain the rest at the end.

Run it: python examples/runtime.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os

from syncagent import Agent, Runtime, ToolContext, tool
from syncagent.testing import ScriptedModel, call, say


@tool
def work(seconds: float, ctx: ToolContext) -> str:
    """Work for a while."""
    ctx.sleep(seconds)
    return "done"


def make_agent(seconds):
    script = ScriptedModel([say(call("work", {"seconds": seconds})), "All done."])
    return Agent(os.environ.get("SYNCAGENT_MODEL") or script, tools=[work])


def main():
    # At the end of the block, and when the interpreter exits, runs have ten seconds to
    # come to their end. With drain_on_sigterm() that is so for SIGTERM, too:
    #     with runtime.drain_on_sigterm(): serve_for_ever()
    with Runtime(drain=10) as runtime:
        quick = runtime.start(make_agent(0.2), "Work 0.2 s.")
        slow = runtime.start(make_agent(3600), "Work an hour.")
        wrong = runtime.start(make_agent(3600), "Work an hour.")
        named = {quick.run_id: "quick", slow.run_id: "slow", wrong.run_id: "wrong"}
        print(f"{runtime!r}: {[named[each.run_id] for each in runtime.list()]}")

        receipt = runtime.cancel(wrong.run_id, "the user has closed the page")
        print(f"cancelled: {bool(receipt)}; {wrong.result().stop_reason}")

        report = runtime.shutdown(timeout=1)  # drain, then cancel, then report
        for what in ("drained", "cancelled", "running"):
            print(f"{what}:", [named[run_id] for run_id in getattr(report, what)])
        print(f"slow ended as {slow.result().stop_reason}")


if __name__ == "__main__":
    main()
