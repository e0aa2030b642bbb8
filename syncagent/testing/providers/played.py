"""The providers that the fake server plays, by the names of their endpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

import msgspec

from .anthropic import rules as anthropic_rules
from .anthropic import speech as anthropic
from .deepseek import rules as deepseek_rules
from .gemini import rules as gemini_rules
from .gemini import speech as gemini
from .groq import rules as groq_rules
from .mistral import rules as mistral_rules
from .moonshot import rules as moonshot_rules
from .openai_chat import rules as openai_chat_rules
from .openai_chat import signed_speech as signed_chat
from .openai_chat import speech as openai_chat
from .openai_responses import rules as openai_responses_rules
from .openai_responses import speech as openai_responses
from .openrouter import rules as openrouter_rules
from .xai import rules as xai_rules
from .xai import speech as xai

__all__ = ["PLAYED", "PlayedProvider", "find_played"]

#: Schemes in the header ``Authorization``, in lower case.
_SCHEMES: Final = ("bearer", "aws4-hmac-sha256")


class PlayedProvider(msgspec.Struct, frozen=True):
    """A provider that the fake server plays."""

    #: Writes responses.
    speech: ModuleType
    #: Returns the provider's complaint about a payload, with the path of the request.
    complaint: Callable[[dict[str, Any], str], str | None]
    #: Returns the body of an error, by its status and message.
    error: Callable[[int, str], Any]
    #: The headers that may hold the key.
    key_headers: tuple[str, ...] = ("authorization",)

    def has_key(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request has a key, or the signature of a cloud."""
        for name in self.key_headers:
            scheme, _, value = headers.get(name, "").partition(" ")
            is_bare = name != "authorization" and scheme != ""
            if is_bare or (value.strip() and scheme.lower() in _SCHEMES):
                return True
        return False


def _played(speech: ModuleType, rules: ModuleType, *key_headers: str) -> PlayedProvider:
    """Return a provider with the error bodies of its rules, or those of its dialect."""
    error = getattr(rules, "error", speech.error)
    names = key_headers or ("authorization",)
    return PlayedProvider(speech, rules.complaint, error, names)


#: The providers with rules of their own, by endpoint.
PLAYED: Final = {
    "openai": _played(openai_responses, openai_responses_rules),
    "openai-chat": _played(openai_chat, openai_chat_rules),
    "xai": _played(xai, xai_rules),
    "anthropic": _played(anthropic, anthropic_rules, "x-api-key"),
    "gemini": _played(gemini, gemini_rules, "x-goog-api-key"),
    "deepseek": _played(openai_chat, deepseek_rules),
    "groq": _played(openai_chat, groq_rules),
    "mistral": _played(openai_chat, mistral_rules),
    "moonshot": _played(openai_chat, moonshot_rules),
    "openrouter": _played(signed_chat, openrouter_rules),
    "azure": _played(
        openai_responses, openai_responses_rules, "api-key", "authorization"
    ),
    "azure-chat": _played(openai_chat, openai_chat_rules, "api-key", "authorization"),
    "azure-anthropic": _played(
        anthropic, anthropic_rules, "x-api-key", "authorization"
    ),
    "vertex": _played(gemini, gemini_rules),
    "vertex-anthropic": _played(anthropic, anthropic_rules),
    "vertex-chat": _played(signed_chat, openai_chat_rules),
    "bedrock": _played(openai_chat, openai_chat_rules),
    "bedrock-anthropic": _played(anthropic, anthropic_rules),
    "bedrock-responses": _played(openai_responses, openai_responses_rules),
}
#: The provider that invented each operation, by the end of the path.
_INVENTORS: Final = {
    "/chat/completions": "openai-chat",
    "/responses": "openai",
    "/messages": "anthropic",
    ":streamRawPredict": "anthropic",
    ":rawPredict": "anthropic",
    ":streamGenerateContent": "gemini",
    ":generateContent": "gemini",
}


def find_played(path: str) -> PlayedProvider | None:
    """Return the provider for a request, or None if no provider has its path.

    The first part of the path may name an endpoint; else the inventor of the operation
    is played.
    """
    inventors = (name for end, name in _INVENTORS.items() if path.endswith(end))
    inventor = next(inventors, None)
    if inventor is None:
        return None
    played = PLAYED[inventor]
    named = PLAYED.get(path.split("/")[1], played)
    # The path of a provider may begin with the name of another: /openai/v1.
    language = getattr(named.speech, "LANGUAGE", named.speech)
    return named if language is played.speech else played
