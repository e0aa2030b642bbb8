"""Stop an agent from another thread, see what is left, and go on with it.

Run it: python examples/cancel_from_watchdog.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os
import threading

from syncagent import Agent
from syncagent.models import OpenAIChat
from syncagent.testing import FakeServer, Send, Stall, say


def main():
    story = "Once upon a time there was a thread. " * 5
    # A server on this machine that says a few words and then nothing more.
    script = [say(story, acts=[Send(12), Stall()]), "Where was I?"]
    with FakeServer(script) as server:
        model = OpenAIChat("any", base_url=server.base_url, api_key="none")
        agent = Agent(os.environ.get("SYNCAGENT_MODEL") or model)

        receipts = []
        watchdog = threading.Timer(
            0.3, lambda: receipts.append(agent.cancel("this takes too long"))
        )
        watchdog.start()
        result = agent.run("Tell me a long story.")  # blocks, until it is cancelled
        watchdog.join()

        (receipt,) = receipts
        print(f"receipt: {receipt!r}")
        if receipt:  # false if the run was over already
            took = receipt.latency * 1e3
            print(f"stopped in phase {receipt.phase!r}, {took:.2f} ms later")
        print(f"kept: {result.text!r}")
        print(f"then: {agent.run('Go on.').text}")


if __name__ == "__main__":
    main()
