"""A chat as a function: break out of an answer, and go on with the conversation.

Run it: python examples/chat_function.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os

from syncagent import llm_chat
from syncagent.events import TextDelta
from syncagent.testing import ScriptedModel

MODEL = os.environ.get("SYNCAGENT_MODEL") or ScriptedModel(
    [
        "A thread is a part of a program that runs beside the others.",
        "Once upon a time there was a thread, and nobody could stop it.",
        "Gladly: it was cancelled, and lived happily ever after.",
    ]
)


@llm_chat(model=MODEL)
def tutor(message: str, history: list, level: str = "beginner"):
    """You are a patient tutor. Answer in one sentence."""


def main():
    history = []  # it is brought up to date by every call
    for event in tutor("What is a thread?", history):
        if isinstance(event, TextDelta):
            print(event.text, end="", flush=True)
    print(f"\n{len(history)} messages")

    said = ""
    for event in tutor("Tell me a long story about one.", history):
        if isinstance(event, TextDelta):
            said += event.text
        if len(said) > 20:
            break  # which cancels it; what came is kept
    print(f"{said}... {len(history)} messages, cut off: {history[-1].is_cut}")

    with tutor("Tell me how it ends.", history) as stream:
        for _ in stream:
            pass
    print(stream.result.text)
    print(f"{len(history)} messages, {stream.result.usage.total_tokens} tokens")


if __name__ == "__main__":
    main()
