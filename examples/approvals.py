"""Ask before a tool is called: with a handler, or by pausing the run.

Run it: python examples/approvals.py
With a real model: Agent("openai:gpt-6-luna", tools=[pay], approve=approve)
"""

from syncagent import Agent, Approval, tool
from syncagent.testing import ScriptedModel, call, say


@tool(requires_approval=lambda arguments, ctx: arguments["amount"] > 100)
def pay(amount: float, to: str) -> str:
    """Pay somebody."""
    return f"{to} has got {amount:g}"


def script(amount):
    return ScriptedModel([say(call("pay", {"amount": amount, "to": "Ada"})), "Done."])


def main():
    def approve(request):  # on a thread of its own: a cancel does not wait for it
        print(f"may {request.tool} be called with {request.arguments}? only with 99")
        return Approval(True, arguments={**request.arguments, "amount": 99})

    agent = Agent(script(5000), tools=[pay], approve=approve)
    agent.run("Pay Ada.")
    print(agent.messages[-2].content[0].content[0].text)

    # Without a handler the run ends, and goes on when there is an answer ...
    agent = Agent(script(5000), tools=[pay])
    result = agent.run("Pay Ada.")
    print(f"{result.stop_reason}: {result.interrupts[0].arguments}")
    result = agent.resume({result.interrupts[0].id: False})
    print(f"{result.tool_outcomes[0].outcome}; {result.text}")

    # ... or is let go, and the conversation goes on.
    agent = Agent(script(5000), tools=[pay])
    agent.run("Pay Ada.")
    agent.cancel("never mind")
    print(agent.run("And now?").text)


if __name__ == "__main__":
    main()
