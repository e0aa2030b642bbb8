"""Would providers take this conversation? Each by its own rules, strictly."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..messages import Message, UserMessage
from ..models.dialects import Anthropic, Gemini, OpenAIChat, OpenAIResponses
from ..options import ToolSpec
from ..transcript.transcript import Transcript
from .providers.anthropic import rules as anthropic
from .providers.gemini import rules as gemini
from .providers.openai_chat import rules as openai_chat
from .providers.openai_responses import rules as openai_responses

__all__ = ["complaints"]

_ALL = (
    (Anthropic, anthropic),
    (Gemini, gemini),
    (OpenAIChat, openai_chat),
    (OpenAIResponses, openai_responses),
)


def complaints(
    messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
) -> dict[str, str]:
    """Return what providers would say against a conversation, by their names.

    It is sent as it is, and with another prompt after it. As sending repairs it, it is
    also looked at as it stands; that goes by ``transcript``.
    """
    found: dict[str, str] = {}
    problems = Transcript(messages).validate()
    if problems:
        found["transcript"] = "; ".join(problems)
    following = [*messages, UserMessage.of("Go on.")]
    for model, rules in _ALL:
        for said in (messages, following):
            payload = model.dialect.build_payload("m", said, tools)
            complaint = rules.complaint(msgspec.json.decode(payload))
            if complaint is not None:
                found[model.dialect.name] = complaint
    return found
