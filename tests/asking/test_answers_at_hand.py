"""A run that is gone on with does not ask what was answered already."""

from syncagent import Agent, tool
from syncagent.events import InterruptRaised
from syncagent.testing import ScriptedModel, call, say


@tool(requires_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def test_answers_at_hand_are_not_asked_for():
    """Whoever follows a resumed run sees no question whose answer was given to it."""
    script = [say(call("pay", {"amount": 1})), say(call("pay", {"amount": 2})), "Ok."]
    agent = Agent(ScriptedModel(script), tools=[pay])
    (first,) = agent.run("Pay.").interrupts
    events = list(agent.resume_stream({first.id: True}))
    shown = [event for event in events if isinstance(event, InterruptRaised)]
    assert [[asked.arguments for asked in each.interrupts] for each in shown] == [
        [{"amount": 2}]
    ]
