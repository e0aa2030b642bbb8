"""Things to talk to in a terminal, by the name that is the first argument."""

import sys
from collections.abc import Iterator

from typed_tools import delete

from syncagent import Agent, CancelToken, llm_chat, tui
from syncagent.models import OpenAIChat
from syncagent.testing import no_leaks


def model():
    return OpenAIChat("test", base_url=sys.argv[2], api_key="none")


def make_agent(system: str) -> Agent:
    return Agent(model(), system=system, tools=[delete], name="Adam")


def run(name: str) -> object:
    if name in ("agent", "plain agent"):
        return tui(make_agent("Be an agent."), plain="plain" in name)()
    if name == "factory":
        return tui(make_agent)("Be made.")
    if name == "chat":

        @tui
        @llm_chat(model(), tools=[delete])
        def talk(message: str, history: list) -> None:
            """Be a chat."""

        history: list = []
        talk(history=history)
        return history
    if name == "chat with more":

        @tui(while_busy="interrupt")
        @llm_chat(model(), tools=[delete])
        def talk_to(
            message: str, user: str, chat_history: list, how: str = "politely"
        ) -> None:
            """Be a chat."""

        return talk_to(user="Eve")

    @tui
    def own(message: str, history: list, cancel: CancelToken) -> Iterator:
        agent = Agent(model(), messages=history)
        yield from agent.stream(f"<{message}>", cancel=cancel)

    return own()


with no_leaks():
    said = run(sys.argv[1])
print(f"{len(said)} messages")
