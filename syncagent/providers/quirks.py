"""Quirks: how a provider differs from the others that speak its dialect.

They are data, so a provider that is compatible except in a few points is a line in
:mod:`syncagent.models.endpoints`, and not a dialect of its own.
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

    The defaults are those of models that take every effort, and that can call tools in
    any case.
    """

    #: A pattern for the beginning of their names, without a vendor before it.
    names: str = ""
    #: Their words for an effort; the nearest one is sent.
    efforts: tuple[Effort, ...] = EFFORTS
    #: The fields that turn thinking on, for models without words for it; ``None`` if
    #: they do not think.
    on: Mapping[str, Any] | None = None
    #: The fields that turn it off, in place of the effort ``none``; ``None`` if nothing
    #: does.
    off: Mapping[str, Any] | None = None
    #: True if they think unless it is turned off.
    think: bool = True
    #: When they take a temperature.
    sampling: Sampling = "always"
    #: The use of tools that they reject while they think: ``any``, or only a
    #: ``forced`` one.
    rejects_tools: Literal["", "any", "forced"] = ""


class Quirks(msgspec.Struct, frozen=True, kw_only=True):
    """Differences of one provider; the defaults are those of the dialect's inventor."""

    #: Its names for fields of the dialect; ``None`` for a field that it does not have.
    field_names: Mapping[str, str | None] = {}
    #: How its models think; the first family with the name of a model counts.
    families: tuple[ModelFamily, ...] = ()
    #: True if ids of calls must be nine letters and digits.
    has_short_ids: bool = False
    #: True if an assistant message must stand between tool results and a user message.
    has_reply_after_results: bool = False
    #: The field in which it wants its thinking back as text; empty if it wants none.
    thinking_field: str = ""
    #: True if messages have a field for refusals; else they are sent as text.
    has_refusals: bool = True
    #: True if it takes files as URLs of documents.
    has_document_urls: bool = False
    #: How it takes the beginning of a response: it ``answers`` it as if it were a
    #: message of its own, ``continues`` it, or continues it if this field marks it.
    prefill: Literal["answers", "continues", "prefix", "partial"] = "answers"
    #: The values of ``tool_choice`` that it takes, beside ``auto``; ``named`` is the
    #: name of a tool.
    tool_choices: tuple[str, ...] = ("none", "required", "named")
    #: The type of its tool that searches the web; empty if it has none.
    web_search: str = ""
    #: True if it is Google's Vertex, whose server tools have other fields than those of
    #: the Gemini API.
    is_vertex: bool = False
    #: True if it defines tools that the client runs, such as a shell, so their calls
    #: wait for an output.
    has_client_tools: bool = True
    #: The version of Anthropic's API, for those who want it in the body, and the name
    #: of the model in the address.
    anthropic_version: str = ""
