"""The models of each wire dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ..providers.anthropic.request import AnthropicDialect
from ..providers.dialect import Dialect
from ..providers.gemini.request import GeminiDialect
from ..providers.openai_chat.request import OpenAIChatDialect
from ..providers.openai_responses.request import OpenAIResponsesDialect
from .model import Model

__all__ = ["Anthropic", "Gemini", "OpenAIChat", "OpenAIResponses"]


class OpenAIChat(Model):
    """A model behind Chat Completions, at OpenAI or a compatible provider."""

    dialect_class: ClassVar[type[Dialect]] = OpenAIChatDialect
    default_endpoint: ClassVar[str] = "openai-chat"
    paths: ClassVar[tuple[str, str]] = ("/chat/completions", "/chat/completions")


class OpenAIResponses(Model):
    """A model behind OpenAI's Responses API."""

    dialect_class: ClassVar[type[Dialect]] = OpenAIResponsesDialect
    default_endpoint: ClassVar[str] = "openai"
    paths: ClassVar[tuple[str, str]] = ("/responses", "/responses")


class Anthropic(Model):
    """A model behind Anthropic's Messages API."""

    dialect_class: ClassVar[type[Dialect]] = AnthropicDialect
    default_endpoint: ClassVar[str] = "anthropic"
    key_header: ClassVar[str] = "x-api-key"
    key_scheme: ClassVar[str] = ""
    extra_headers: ClassVar[Mapping[str, str]] = {"anthropic-version": "2023-06-01"}
    paths: ClassVar[tuple[str, str]] = ("/messages", "/messages")


class Gemini(Model):
    """A model behind Google's Gemini API."""

    dialect_class: ClassVar[type[Dialect]] = GeminiDialect
    default_endpoint: ClassVar[str] = "gemini"
    key_header: ClassVar[str] = "x-goog-api-key"
    key_scheme: ClassVar[str] = ""
    paths: ClassVar[tuple[str, str]] = (
        "/models/{model}:streamGenerateContent?alt=sse",
        "/models/{model}:generateContent",
    )
