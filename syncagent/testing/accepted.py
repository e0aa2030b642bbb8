"""Check a conversation against the rules of every provider."""

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

_PROVIDERS = (
    (Anthropic, anthropic),
    (Gemini, gemini),
    (OpenAIChat, openai_chat),
    (OpenAIResponses, openai_responses),
)


def complaints(
    messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
) -> dict[str, str]:
    """Return the complaints of providers about a conversation, by their names.

    Each gets the conversation as it is, and with another prompt after it. Encoding
    repairs a conversation, so it is also validated as it is; complaints about that are
    under ``transcript``.
    """
    found: dict[str, str] = {}
    problems = Transcript(messages).validate()
    if problems:
        found["transcript"] = "; ".join(problems)
    following = [*messages, UserMessage.of("Go on.")]
    for model, rules in _PROVIDERS:
        for conversation in (messages, following):
            payload = model.dialect.build_payload("m", conversation, tools)
            complaint = rules.complaint(msgspec.json.decode(payload))
            if complaint is not None:
                found[model.dialect.name] = complaint
    return found
