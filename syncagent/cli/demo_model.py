"""A scripted model to talk to where there is no real one."""

from __future__ import annotations

from typing import Final

from ..messages import Message, Text, UserMessage
from ..models.model import Model
from ..testing import Reply, ScriptedModel, say

__all__ = ["demo_model"]

_ABOUT: Final = (
    "I am a script and no model: I can show you how answers come, and how they are "
    "stopped. You said: "
)


def demo_model() -> Model:
    """Return a model that has something to say to everything."""
    return ScriptedModel(_answer)


def _answer(messages: list[Message]) -> Reply:
    said = ""
    for message in messages:
        if isinstance(message, UserMessage):
            said = " ".join(
                block.text for block in message.content if isinstance(block, Text)
            )
    return say(_ABOUT + said)
