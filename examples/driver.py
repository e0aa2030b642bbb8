"""Pull a run along, step by step: it waits for you, wherever it has to ask.

Run it: python examples/driver.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os

from syncagent import AfterToolResult, Agent, ApprovalRequest, AwaitingInput, tool
from syncagent.driver import Finished
from syncagent.testing import ScriptedModel, call, say


@tool(requires_approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


def answer(request):
    if request.arguments["path"].startswith("/tmp/"):
        request.approve()
    else:
        request.deny("only in /tmp")


def main():
    two_calls = say(
        call("delete", {"path": "/tmp/old"}, "a"),
        call("delete", {"path": "/etc/passwd"}, "b"),
    )
    script = ScriptedModel([two_calls, "One of two.", "Bye."])
    agent = Agent(os.environ.get("SYNCAGENT_MODEL") or script, tools=[delete])
    prompts = ["Delete /tmp/old and /etc/passwd.", "Thank you."]
    with agent.drive() as driver:  # leaving the block ends what is left
        while True:
            step = driver.next()  # on this thread, as far as it gets
            if isinstance(step, ApprovalRequest):
                print(f"may {step.tool} be called with {step.arguments}?")
                answer(step)
            elif isinstance(step, AfterToolResult):
                print("tools:", [each.outcome for each in step.outcomes])
                driver.send_input("And be brief.")  # the model hears it next
            elif isinstance(step, Finished):
                print("model:", step.result.text)
            elif isinstance(step, AwaitingInput) and prompts:
                step.submit(prompts.pop(0))
            else:
                break


if __name__ == "__main__":
    main()
