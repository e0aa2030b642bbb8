"""Quirks: the differences between a provider and others with the same dialect.

Quirks are data: a provider that is compatible except in a few points is an entry in
:mod:`syncagent.models.endpoints`, not a dialect of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ..options import Effort
from .families import EFFORTS, Sampling

__all__ = ["ModelFamily", "Quirks"]


class ModelFamily(msgspec.Struct, frozen=True, kw_only=True):
    """Models of one provider that think alike.

    By default they take every effort, and call tools while they think.
    """

    #: A pattern for the beginning of their names, without a vendor before it.
    names: str = ""
    #: The efforts that they take; the nearest one is sent.
    efforts: tuple[Effort, ...] = EFFORTS
    #: The fields that turn thinking on, for models without efforts; ``None`` if they do
    #: not think.
    on: Mapping[str, Any] | None = None
    #: The fields that turn thinking off, in place of the effort ``none``; ``None`` if
    #: there are none.
    off: Mapping[str, Any] | None = None
    #: True if they think unless thinking is turned off.
    think: bool = True
    #: When they take a temperature.
    sampling: Sampling = "always"
    #: The tool calls that they reject while they think: ``any``, or only ``forced``
    #: ones.
    rejects_tools: Literal["", "any", "forced"] = ""

    @property
    def can_stop(self) -> bool:
        """True if thinking can be turned off."""
        return self.off is not None or "none" in self.efforts


class Quirks(msgspec.Struct, frozen=True, kw_only=True):
    """Differences of one provider; the defaults are those of the dialect's inventor."""

    #: Its names for fields of the dialect; ``None`` for a field that is missing there.
    field_names: Mapping[str, str | None] = {}
    #: The families of its models; a model is of the first one whose pattern matches.
    families: tuple[ModelFamily, ...] = ()
    #: True if ids of calls must be nine letters and digits.
    has_short_ids: bool = False
    #: True if an assistant message must stand between tool results and a user message.
    has_reply_after_results: bool = False
    #: The field for its own thinking, which it expects back; empty if it does not.
    thinking_field: str = ""
    #: True if messages have a field for refusals; else refusals are sent as text.
    has_refusals: bool = True
    #: True if it takes files as URLs of documents.
    has_document_urls: bool = False
    #: How it takes the beginning of a response: it ``answers`` it like any other
    #: message, ``continues`` it, or continues it if the field ``prefix`` or ``partial``
    #: is true.
    prefill: Literal["answers", "continues", "prefix", "partial"] = "answers"
    #: The values of ``tool_choice`` that it takes beside ``auto``; ``named`` stands for
    #: the name of a tool.
    tool_choices: tuple[str, ...] = ("none", "required", "named")
    #: The type of its tool for web searches; empty if it has none.
    web_search: str = ""
    #: True for Google's Vertex: its server tools have other fields than those of the
    #: Gemini API.
    is_vertex: bool = False
    #: True if it defines tools that the client runs, such as a shell: their calls wait
    #: for an output.
    has_client_tools: bool = True
    #: The version of Anthropic's API, for providers that expect it in the body, and the
    #: name of the model in the address.
    anthropic_version: str = ""
