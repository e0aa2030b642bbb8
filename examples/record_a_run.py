"""Record a run that is cancelled while its tools run, and draw it.

Run it: python examples/record_a_run.py [run.jsonl]
Then: syncagent timeline run.jsonl -o run.html
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os
import sys
import tempfile
import threading
from pathlib import Path

from syncagent import Agent, ToolContext, tool
from syncagent.models import OpenAIChat
from syncagent.testing import Delay, FakeServer, Send, Status, call, say
from syncagent.timeline import read_timeline, render_text


@tool
def search(query: str, seconds: float, ctx: ToolContext) -> str:
    """Search for something, and stop when the run does."""
    ctx.progress("page 1")
    ctx.sleep(seconds)
    return f"three results for {query}"


@tool(on_cancel="kill")
def compute(number: int) -> int:
    """Compute for ever, in a process that can be killed."""
    while True:
        number += 1


def main(path):
    slowly = [Delay(0.1), *[Send(1), Delay(0.02)] * 12, Send()]
    calls = [
        call("search", {"query": "threads", "seconds": 0.2}, "1"),
        call("search", {"query": "event loops", "seconds": 60}, "2"),
        call("compute", {"number": 7}, "3"),
    ]
    script = [
        say("busy", acts=[Status(503, headers={"retry-after": "0.2"})]),
        say("I look that up.", *calls, acts=slowly),
    ]
    with FakeServer(script) as server:
        model = OpenAIChat("any", base_url=server.base_url, api_key="none")
        model = os.environ.get("SYNCAGENT_MODEL") or model
        agent = Agent(model, tools=[search, compute], parallel_tools=3)
        stop = threading.Timer(1.5, agent.cancel, ["the user pressed stop"])
        stop.start()
        result = agent.run("Threads or event loops?", record=path)
        stop.join()
    print(f"{result.stop_reason}; all that happened is in {path.name}:\n")
    print(render_text(read_timeline(path), width=78, ascii_only=True))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(sys.argv[1] if sys.argv[1:] else f"{folder}/run.jsonl"))
