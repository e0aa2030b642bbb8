"""Send a run to the background from another thread: its caller returns, it goes on.

Run it: python examples/send_to_background.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os
import threading

from syncagent import Agent, AgentBusy
from syncagent.models import OpenAIChat
from syncagent.testing import FakeServer, Gate, Send, Stall, say


def main():
    gate = Gate()
    story = "Once upon a time there was a thread that had no time. " * 3
    slow = say(story, acts=[Send(5), Stall(gate), Send()])
    with FakeServer([slow]) as server:
        fake = OpenAIChat("any", base_url=server.base_url, api_key="none")
        agent = Agent(os.environ.get("SYNCAGENT_MODEL") or fake)

        threading.Timer(0.3, agent.background).start()  # the user presses a key
        # backgroundable: released at once, and not with the next event only.
        result = agent.run("Tell me all about threads.", backgroundable=True)
        print(f"{result.stop_reason}: the caller is free")
        if result.handle is None:
            return  # a fast model: all of it was there by then

        # The conversation belongs to the run until that ends ...
        try:
            agent.run("Something else.")
        except AgentBusy:
            print("the agent is busy")
        print("a cancel of what is in the foreground hits:", bool(agent.cancel()))

        gate.open()  # ... which goes on over the same connection.
        whole = result.handle.result()
        print(f"{whole.stop_reason}: {whole.text}")


if __name__ == "__main__":
    main()
