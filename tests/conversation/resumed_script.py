"""Another process: load an agent whose run failed, resume it, and print the result."""

import sys
from pathlib import Path

import msgspec

from syncagent import Agent, tool
from syncagent.testing import ScriptedModel, call, say

made = []


@tool
def step(number: int) -> str:
    """Make a step."""
    made.append(number)
    return f"made {number}"


calls = [say(call("step", {"number": n}, f"step_{n}")) for n in (3, 4)]
agent = Agent.load(
    Path(sys.argv[1]).read_text(), ScriptedModel([*calls, "All done."]), tools=[step]
)
result = agent.resume()
print(
    msgspec.json.encode(
        {
            "made": made,
            "run_id": result.run_id,
            "text": result.text,
            "turns": result.turns,
            "tokens": result.usage.total_tokens,
            "agent_tokens": agent.usage.total_tokens,
            "outcomes": [each.outcome for each in result.tool_outcomes],
        }
    ).decode()
)
