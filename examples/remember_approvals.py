"""Answer once: an answer may go for the tool, or for these very arguments.

Run it: python examples/remember_approvals.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os

from syncagent import Agent, Approval, Rule, tool
from syncagent.testing import ScriptedModel, call, say


@tool
def shell(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


@tool
def read(path: str) -> str:
    """Read a file."""
    return f"all of {path}"


def approve(request):
    print(f"  asked about {request.tool} {request.arguments}")
    if request.tool == "read":
        return Approval(True, remember="tool")  # whatever the path
    if request.arguments["command"] == "ls":
        return Approval(True, remember="arguments")  # this command, and no other
    return Approval(False, reason="not while I am away")


def main():
    work = [
        call("read", {"path": "a.txt"}, "1"),
        call("shell", {"command": "ls"}, "2"),
        call("shell", {"command": "reboot"}, "3"),
        call("shell", {"command": "rm -rf /"}, "4"),
    ]
    script = ScriptedModel([say(*work), "Hm.", say(*work), "Hm again."])
    agent = Agent(
        os.environ.get("SYNCAGENT_MODEL") or script,
        tools=[shell, read],
        requires_approval=True,  # every tool, beside what the tools say themselves
        rules=[Rule("shell", False, {"command": "rm -rf /"}, "never")],  # from before
        approve=approve,
    )
    for prompt in ("Look around.", "Once more."):
        print(prompt)
        result = agent.run(prompt)
        print(" ", [each.outcome for each in result.tool_outcomes])
    for rule in agent.rules:  # saved with the agent; forget_rules() asks again
        words = "all" if rule.arguments is None else rule.arguments
        print(f"rule: {rule.tool} {words}: {'yes' if rule.allow else 'no'}")


if __name__ == "__main__":
    main()
