"""Quirks: how a provider differs from the others that speak its dialect.

They are data, so a provider that is compatible except in a few points is a line in
:mod:`syncagent.models.endpoints`, and not a dialect of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ..options import Effort

__all__ = ["Quirks"]


class Quirks(msgspec.Struct, frozen=True, kw_only=True):
    """Differences of one provider; the defaults are those of the dialect's inventor."""

    #: Its names for fields of the dialect; ``None`` for a field that it does not have.
    field_names: Mapping[str, str | None] = {}
    #: The fields that ask for an effort, where the dialect's own do not work; ``None``
    #: for an effort that the provider does not have.
    efforts: Mapping[Effort, Mapping[str, Any] | None] = {}
    #: True if ids of calls must be nine letters and digits.
    has_short_ids: bool = False
    #: True if an assistant message must stand between tool results and a user message.
    has_reply_after_results: bool = False
    #: The field in which it wants its thinking back; empty if it wants none.
    thinking_field: Literal["", "reasoning_content", "reasoning_details"] = ""
    #: True if messages have a field for refusals; else they are sent as text.
    has_refusals: bool = True
    #: How it takes the beginning of a response: it ``answers`` it as if it were a
    #: message of its own, ``continues`` it, or continues it if it is marked with
    #: ``prefix``.
    prefill: Literal["answers", "continues", "prefix"] = "answers"
    #: Values of ``tool_choice`` that force a call and that it takes: ``named`` tools,
    #: ``required``, or both, but only ``idle`` while it does not think.
    forced_choice: Literal["both", "named", "idle"] = "both"
    #: True if it is Google's Vertex, whose server tools have other fields than those of
    #: the Gemini API.
    is_vertex: bool = False
    #: True if it defines tools that the client runs, such as a shell, so their calls
    #: wait for an output.
    has_client_tools: bool = True
    #: The version of Anthropic's API, for those who want it in the body, and the name
    #: of the model in the address.
    anthropic_version: str = ""
