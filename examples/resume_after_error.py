"""Go on with a run that failed in the middle, instead of beginning again.

Run it: python examples/resume_after_error.py
With a real model: Agent("openai:gpt-6-luna", tools=[read_page])
"""

from syncagent import Agent, SyncAgentError, tool
from syncagent.models import OpenAIChat
from syncagent.testing import FakeServer, Status, call, say

pages = []


@tool
def read_page(number: int) -> str:
    """Read a page of the report, which is slow and costs money."""
    pages.append(number)
    return f"page {number}: all is well"


def main():
    # A server on this machine that breaks down in the third turn.
    script = [
        say(call("read_page", {"number": 1})),
        say(call("read_page", {"number": 2})),
        Status(500, "out of order"),
        say(call("read_page", {"number": 3})),
        "Three pages, and all is well.",
    ]
    with FakeServer(script) as server:
        model = OpenAIChat("any", base_url=server.base_url, api_key="none", retries=0)
        agent = Agent(model, tools=[read_page])
        try:
            agent.run("Read the report.")
        except SyncAgentError as error:
            print(f"failed: {type(error).__name__}, after pages {pages}")
            print(f"can go on: {error.can_resume}")
            state = agent.save()  # or keep the agent

        # Later, perhaps in another process: the same run, from where it was.
        later = Agent.load(state, model, tools=[read_page])
        result = later.resume()
        print(f"done: {result.text}")
        print(f"pages read: {pages}, each once; turns of the run: {result.turns}")


if __name__ == "__main__":
    main()
