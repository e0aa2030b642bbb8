"""A hundred agents in a hundred threads, one deadline and one event for all.

Run it: python examples/many_threads.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key: four threads.
"""

import os
import threading
from collections import Counter

from syncagent import Agent
from syncagent.models import OpenAIChat, find_model
from syncagent.testing import FakeServer, Send, Stall, say


def main():
    real = os.environ.get("SYNCAGENT_MODEL")
    slow = say("I am thinking about it " * 9, acts=[Send(5), Stall()])
    stop, ends = threading.Event(), Counter()
    with FakeServer(lambda request: slow) as server:
        # One model, with its connections, serves all threads.
        fake = OpenAIChat("any", base_url=server.base_url, api_key="none")
        model = find_model(real) if real else fake

        def work(number):
            timeout = 0.5 if number % 2 else None
            result = Agent(model).run("Think!", timeout=timeout, cancel=stop)
            ends[result.cancellation.origin if result.cancellation else "itself"] += 1

        numbers = range(4 if real else 100)
        threads = [threading.Thread(target=work, args=(n,)) for n in numbers]
        for thread in threads:
            thread.start()
        threading.Timer(1.5, stop.set).start()  # a plain event, which stays set
        for thread in threads:
            thread.join()
    print("ended by:", dict(ends))


if __name__ == "__main__":
    main()
