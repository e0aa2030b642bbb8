"""Make two hundred runs at once, with a budget, and a watchdog that ends them all.

Run it: python examples/nightly_batch.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key: six documents.
"""

import os
import threading

from syncagent import Agent, Budget, Limiter, ProviderError, run_many
from syncagent.models import OpenAIChat
from syncagent.testing import FakeServer, ScriptedModel, Stall, say


def summarize(messages):
    """Respond as a model would; one document is too much for it."""
    text = messages[-1].content[-1].text
    return ProviderError("overloaded") if text.endswith(" 13") else f"About {text}."


real = os.environ.get("SYNCAGENT_MODEL")
documents = [f"document {number}" for number in range(1000)]
agent = Agent(real or ScriptedModel(summarize), system="Summarize.")
failed = []
limiter, budget = Limiter(), Budget(calls=900)  # or cost=5.0, in US dollars
tonight = documents[:6] if real else documents
batch = run_many(agent, tonight, width=200, limiter=limiter, budget=budget)
for outcome in batch:  # in order; batch.as_completed() for the fastest first
    if outcome.exception() is not None or outcome.result().limit == "budget_calls":
        failed.append(outcome.prompt)
print(f"{batch.counts}; {budget.spent}; {len(failed)} again tomorrow")

# The next night the provider hangs. A watchdog looks after the batch.
with FakeServer(lambda request: say("...", acts=[Stall()])) as server:
    model = OpenAIChat("fake", base_url=server.base_url, api_key="none")
    batch = run_many(Agent(model), documents, width=200)

    def watch() -> None:
        while len(server.requests) < 200:  # for real: while there is progress
            idle.wait(0.05)
        receipt = batch.cancel("no progress")
        receipt.wait(10)
        print("all 200 threads have ended:", receipt.wait(0))

    idle = threading.Event()
    watchdog = threading.Thread(target=watch)
    watchdog.start()
    started = sum(outcome.started for outcome in batch)
    watchdog.join()
print(f"{batch.counts}; {started} had begun")
