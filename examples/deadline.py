"""Give a run a deadline, and see what there is when it has passed.

Run it: python examples/deadline.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os

from syncagent import Agent, Limits, RunCancelled
from syncagent.models import OpenAIChat
from syncagent.testing import FakeServer, Send, Stall, say


def main():
    story = "Once upon a time there was a thread. " * 5
    # A server on this machine that says a few words, and then nothing more.
    slow = say(story, acts=[Send(12), Stall()])
    with FakeServer([slow, slow, "Where was I?"]) as server:
        fake = OpenAIChat("any", base_url=server.base_url, api_key="none")
        model = os.environ.get("SYNCAGENT_MODEL") or fake

        # For this run: it ends as a cancel does, and is a result, not an exception.
        agent = Agent(model)
        result = agent.run("Tell me a story.", timeout=0.4)
        print(result.summary)
        print(f"kept: {result.text!r}")

        # For every run of an agent; and for who wants an exception, here it is.
        agent = Agent(model, limits=Limits(seconds=0.4))
        try:
            agent.run("Tell me a story.").raise_for_status()
        except RunCancelled as error:
            print(f"raised: {error}")
            print(f"kept: {error.result.text!r}")

        # A deadline is spent with its run. The next one has its own.
        print(f"then: {agent.run('Go on.').text}")


if __name__ == "__main__":
    main()
