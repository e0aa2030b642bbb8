"""Measure one SDK, in the interpreter of its own environment.

::

    PYTHON benchmarks/peers/program.py NAME http://127.0.0.1:PORT/v1

It prints a line of JSON. Every SDK is used as its own documentation shows it, with its
client for Chat Completions, and is stopped in the fastest way that it has for a caller
on another thread.
"""

import importlib
import importlib.metadata
import json
import os
import statistics
import sys
import sysconfig
import threading
import time
from pathlib import Path

#: Other programs of the machine slow down a block, but rarely all of them.
BLOCKS = 6
TURNS = 20
CANCELS = 5
#: Not part of an SDK's weight.
TOOLS = {"pip", "setuptools", "wheel"}


class Syncagent:
    distribution = "syncagent"
    imports = "from syncagent import Agent"

    def __init__(self, url):
        from syncagent import Agent
        from syncagent.models import OpenAIChat

        model = OpenAIChat("any", base_url=url, api_key="none", retries=0)
        self.make = lambda: Agent(model)

    def ask(self, prompt):
        self.agent = self.make()
        self.agent.run(prompt)

    def stop(self):
        self.agent.cancel()


class OpenAIAgents:
    distribution = "openai-agents"
    imports = "from agents import Agent, Runner"

    def __init__(self, url):
        import asyncio  # noqa: TID251

        import agents
        from openai import AsyncOpenAI

        agents.set_tracing_disabled(True)
        client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
        model = agents.OpenAIChatCompletionsModel(model="any", openai_client=client)
        self.agent = agents.Agent(name="a", model=model)
        self.runner = agents.Runner
        self.loop = asyncio.new_event_loop()

    def ask(self, prompt):
        async def consume():
            self.result = self.runner.run_streamed(self.agent, prompt)
            async for _ in self.result.stream_events():
                pass

        self.loop.run_until_complete(consume())

    def stop(self):
        self.loop.call_soon_threadsafe(self.result.cancel)


class PydanticAI:
    distribution = "pydantic-ai-slim"
    imports = "from pydantic_ai import Agent"

    def __init__(self, url):
        from pydantic_ai import Agent, CancellationToken
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        provider = OpenAIProvider(base_url=url, api_key="none")
        self.agent = Agent(OpenAIChatModel("any", provider=provider))
        self.make_token = CancellationToken

    def ask(self, prompt):
        self.token = self.make_token()
        self.agent.run_sync(prompt, cancellation_token=self.token)

    def stop(self):
        self.token.cancel()


class LangChain:
    distribution = "langchain"
    imports = (
        "from langchain.agents import create_agent; from langchain_openai import "
        "ChatOpenAI"
    )

    def __init__(self, url):
        import asyncio  # noqa: TID251

        from langchain.agents import create_agent
        from langchain_openai import ChatOpenAI

        self.current_task = asyncio.current_task
        model = ChatOpenAI(model="any", base_url=url, api_key="none", max_retries=0)
        self.agent = create_agent(model)
        self.loop = asyncio.new_event_loop()

    def ask(self, prompt):
        async def consume():
            self.task = self.current_task()
            await self.agent.ainvoke({"messages": [("user", prompt)]})

        self.loop.run_until_complete(consume())

    def stop(self):
        self.loop.call_soon_threadsafe(self.task.cancel)


class Strands:
    distribution = "strands-agents"
    imports = "from strands import Agent; from strands.models.openai import OpenAIModel"

    def __init__(self, url):
        from strands import Agent
        from strands.models.openai import OpenAIModel

        args = {"base_url": url, "api_key": "none", "max_retries": 0}
        model = OpenAIModel(client_args=args, model_id="any")
        self.make = lambda: Agent(model=model, callback_handler=None)

    def ask(self, prompt):
        self.agent = self.make()
        self.agent(prompt)

    def stop(self):
        self.agent.cancel()


class Smolagents:
    distribution = "smolagents"
    imports = "from smolagents import OpenAIModel, ToolCallingAgent"

    def __init__(self, url):
        from smolagents import LogLevel, OpenAIModel, ToolCallingAgent

        model = OpenAIModel(model_id="any", api_base=url, api_key="none")
        self.make = lambda: ToolCallingAgent(
            tools=[], model=model, verbosity_level=LogLevel.OFF
        )

    def ask(self, prompt):
        self.agent = self.make()
        self.agent.run(prompt)

    def stop(self):
        self.agent.interrupt()


class MiniSWEAgent:
    """It has no way to be stopped by a caller."""

    distribution = "mini-swe-agent"
    imports = (
        "from minisweagent.agents.default import DefaultAgent; "
        "from minisweagent.models.litellm_model import LitellmModel"
    )

    def __init__(self, url):
        import litellm

        arguments = {"api_base": url, "api_key": "none", "max_retries": 0}
        self.call = lambda prompt: litellm.completion(
            model="openai/any",
            messages=[{"role": "user", "content": prompt}],
            **arguments,
        )

    def ask(self, prompt):
        self.call(prompt)

    stop = None


PEERS = {
    "syncagent": Syncagent,
    "openai-agents": OpenAIAgents,
    "pydantic-ai": PydanticAI,
    "langchain": LangChain,
    "strands": Strands,
    "smolagents": Smolagents,
    "mini-swe-agent": MiniSWEAgent,
}


def turn(peer):
    """Return the seconds of a question and its answer: the best median of a block."""
    medians = []
    for _ in range(BLOCKS):
        times = []
        for _ in range(TURNS):
            begin = time.perf_counter()
            peer.ask("say three words")
            times.append(time.perf_counter() - begin)
        medians.append(statistics.median(times))
    return min(medians)


def cancel(peer):
    """Return the median seconds from the call that stops a run until it has ended."""
    if peer.stop is None:
        return None
    times = []
    for _ in range(CANCELS):
        stopped = []

        def stop(stopped=stopped):
            stopped.append(time.perf_counter())
            peer.stop()

        timer = threading.Timer(1.0, stop)
        timer.start()
        try:
            peer.ask("HANG NOW")
        except BaseException as error:  # a cancel is an exception in some
            words = f"{type(error).__name__} {error}".lower()
            if "cancel" not in words and "interrupt" not in words:
                raise
        times.append(time.perf_counter() - stopped[0])
        timer.join()
        if times[0] > 2:
            break  # it waits for the server: once is enough
    return statistics.median(times)


def weight():
    """Return the megabytes and the number of all that is installed here."""
    folder = Path(sysconfig.get_path("purelib"))
    files = sum(
        path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and not path.relative_to(folder).parts[0].startswith((*TOOLS, "pkg_resources"))
    )
    names = {d.metadata["Name"].lower() for d in importlib.metadata.distributions()}
    return files / 1e6, len(names - TOOLS)


def main():
    name, url = sys.argv[1:]
    peer = PEERS[name]
    try:
        version = importlib.metadata.version(peer.distribution)
    except importlib.metadata.PackageNotFoundError:
        print("null")
        return
    begin = time.perf_counter()
    exec(peer.imports, {})
    imported = time.perf_counter() - begin
    if url == "import":
        print(json.dumps(imported))
        return
    made = peer(url)
    megabytes, distributions = weight()
    report = {
        "version": version,
        "turn": turn(made),
        "cancel": cancel(made),
        "megabytes": megabytes,
        "distributions": distributions,
        "loads_asyncio": "asyncio" in sys.modules,
    }
    print(json.dumps(report), flush=True)
    os._exit(0)  # some leave threads that wait for the server


if __name__ == "__main__":
    main()
