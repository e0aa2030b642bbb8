"""Send a run to the background from another thread: its caller returns, it goes on.

Run it: python examples/send_to_background.py
With a real model: Agent("openai:gpt-6-luna"), and no server.
"""

import threading

from syncagent import Agent, AgentBusy
from syncagent.models import OpenAIChat
from syncagent.testing import FakeServer, Gate, Send, Stall, say


def main():
    gate = Gate()
    story = "Once upon a time there was a thread that had no time. " * 3
    slow = say(story, acts=[Send(5), Stall(gate), Send()])
    with FakeServer([slow]) as server:
        agent = Agent(OpenAIChat("any", base_url=server.base_url, api_key="none"))

        threading.Timer(0.3, agent.background).start()  # the user presses a key
        # backgroundable: released at once, and not with the next event only.
        result = agent.run("Tell me a story.", backgroundable=True)
        print(f"{result.stop_reason}: the caller is free, {result.handle.state}")

        # The conversation belongs to the run until that ends ...
        try:
            agent.run("Something else.")
        except AgentBusy:
            print("the agent is busy")
        print("a cancel of what is in the foreground hits:", bool(agent.cancel()))

        gate.open()  # ... which goes on over the same connection.
        whole = result.handle.result()
        print(f"{whole.stop_reason}: all of it {whole.text == story}")
        print("requests:", len(server.requests))


if __name__ == "__main__":
    main()
