"""Ask before a tool is called: with a handler, or by pausing the run.

Run it: python examples/approvals.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os

from syncagent import Agent, Approval, tool
from syncagent.testing import ScriptedModel, call, say


@tool(requires_approval=lambda arguments, ctx: arguments["amount"] > 100)
def pay(amount: float, to: str) -> str:
    """Pay somebody."""
    return f"{to} has got {amount:g}"


def script(amount):
    pays = say(call("pay", {"amount": amount, "to": "Ada"}))
    return os.environ.get("SYNCAGENT_MODEL") or ScriptedModel([pays, "Done."])


def main():
    def approve(request):  # on a thread of its own: a cancel does not wait for it
        print(f"may {request.tool} be called with {request.arguments}? only with 99")
        return Approval(True, arguments={**request.arguments, "amount": 99})

    agent = Agent(script(5000), tools=[pay], approve=approve)
    result = agent.run("Pay Ada 5000.")
    print(agent.messages[-2], result.text)

    # Without a handler the run ends, and goes on when there is an answer ...
    agent = Agent(script(5000), tools=[pay])
    result = agent.run("Pay Ada 5000.")
    print(f"{result.stop_reason}: {[each.arguments for each in result.interrupts]}")
    if agent.is_paused:
        result = agent.resume({each.id: False for each in result.interrupts})
    print([each.outcome for each in result.tool_outcomes], result.text)

    # ... or is let go, and the conversation goes on.
    agent = Agent(script(5000), tools=[pay])
    agent.run("Pay Ada 5000.")
    agent.cancel("never mind")
    print(agent.run("And now?").text)


if __name__ == "__main__":
    main()
