"""A hundred agents in a hundred threads, one deadline and one event for all.

Run it: python examples/many_threads.py
With a real model: model = find_model("openai:gpt-6-luna"), from syncagent.models.
"""

import threading
from collections import Counter

from syncagent import Agent
from syncagent.models import OpenAIChat
from syncagent.testing import FakeServer, Send, Stall, say


def main():
    slow = say("I am thinking about it " * 9, acts=[Send(5), Stall()])
    stop, ends = threading.Event(), Counter()
    with FakeServer(lambda request: slow) as server:
        # One model, with its connections, serves all threads.
        model = OpenAIChat("any", base_url=server.base_url, api_key="none")

        def work(number):
            timeout = 0.5 if number % 2 else None
            result = Agent(model).run("Think!", timeout=timeout, cancel=stop)
            ends[result.cancellation.origin] += 1

        threads = [threading.Thread(target=work, args=(n,)) for n in range(100)]
        for thread in threads:
            thread.start()
        threading.Timer(1.5, stop.set).start()  # a plain event, which stays set
        for thread in threads:
            thread.join()
    print(f"ended by their deadline: {ends['deadline']}, by the event: {ends['user']}")


if __name__ == "__main__":
    main()
