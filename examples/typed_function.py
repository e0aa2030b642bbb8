"""A function that a model stands in for, and how to stop it.

Run it: python examples/typed_function.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os
import threading
from dataclasses import dataclass
from typing import Literal

from syncagent import OutputInvalid, RunCancelled, llm_function
from syncagent.testing import Gate, ScriptedModel

MODEL = os.environ.get("SYNCAGENT_MODEL") or ScriptedModel(
    [
        '{"mood": "cross", "stars": 2}',
        '{"mood": "bad", "stars": 2}',
        Gate(),  # from here on it hangs
        "never said",
    ]
)


@dataclass
class Review:
    mood: Literal["good", "bad"]
    stars: int


@llm_function(model=MODEL)
def judge(text: str, *, language: str = "English") -> Review:
    """Judge the review: how the writer feels, and how many stars of five it means."""


def main():
    review = judge("The soup was cold.")
    print(review, type(review).__name__)
    if isinstance(MODEL, ScriptedModel):
        print("the model was told:", MODEL.requests[1][-1].content[0].text)

    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    try:
        judge("The soup was warm.", cancel=stop)
    except RunCancelled as error:
        print("stopped:", error.result.stop_reason, error.result.cancellation.origin)

    never = judge.using(model=ScriptedModel(["Hm."] * 2), repairs=1)
    try:
        never("There was no soup.")
    except OutputInvalid as error:
        print(f"{error.attempts} attempts, the last was {error.text!r}")


if __name__ == "__main__":
    main()
