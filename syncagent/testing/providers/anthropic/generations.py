"""Options that Anthropic's Messages API rejects for some generations of Claude.

This module parses the names of models in another way than the dialect: a mistake in one
of the two shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

#: Models that think with a budget, and nothing else.
_BUDGETS: Final = re.compile(
    r"claude-(?:instant|[123]\b|4-(?:opus|sonnet)|(?:opus|sonnet|haiku)-4(?![-.][6-9]))"
)
#: Models that think with a budget as well.
_BOTH: Final = re.compile(r"claude-(?:opus|sonnet)-4[-.]6")
#: Models that always think.
_ALWAYS: Final = re.compile(r"claude-(?:fable|mythos|opus-5[-.][5-9])")
#: Models that turn thinking off in a way of their own.
_BETWEEN: Final = re.compile(r"claude-sonnet-5[-.][5-9]")
#: Models that turn it off at the lower efforts only.
_LOWER: Final = re.compile(r"claude-(?:opus-5|sonnet-5[-.][5-9]|haiku-5)")
#: Models that cannot be forced to call a tool.
_UNFORCED: Final = re.compile(
    r"claude-(?:(?:fable|mythos)-5[-.][1-9]|(?:opus|sonnet)-5[-.][5-9])"
)
_WORDS: Final = ("low", "medium", "high", "xhigh", "max")
_USE: Final = (
    'Use "thinking.type.adaptive" and "output_config.effort" to control thinking '
    "behavior."
)
_USE_BETWEEN: Final = (
    'Use "thinking.type.between_tools" for the lowest thinking setting, or '
    '"thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
)
_FIELDS: Final = {
    "enabled": {"type", "budget_tokens", "display"},
    "adaptive": {"type", "display", "block_binding"},
    "disabled": {"type"},
    "between_tools": {"type"},
}


def is_old(model: str) -> bool:
    """Return whether the model takes a temperature; one with another name does not."""
    return bool(_BUDGETS.search(model) or _BOTH.search(model))


def check_thinking_type(payload: dict[str, Any]) -> Iterator[str]:
    thinking, model = payload.get("thinking", {"type": ""}), payload["model"]
    kind = thinking["type"]
    no = f'"thinking.type.{kind}" is not supported for this model.'
    if kind == "enabled" and not is_old(model):
        yield f"{no} {_USE}"
    if kind == "adaptive" and _BUDGETS.search(model):
        yield "adaptive thinking is not supported on this model"
    if kind == "disabled" and _ALWAYS.search(model):
        yield f"{no} {_USE}"
    if kind == "disabled" and _BETWEEN.search(model):
        yield f"{no} {_USE_BETWEEN}"
    if kind == "between_tools" and not _BETWEEN.search(model):
        yield no
    for name in sorted(thinking.keys() - _FIELDS.get(kind, thinking.keys())):
        yield f"thinking.{kind}.{name}: Extra inputs are not permitted"
    if thinking.get("display") not in (None, "summarized", "omitted"):
        yield f"thinking.{kind}.display: Input should be 'summarized' or 'omitted'"


def check_effort(payload: dict[str, Any]) -> Iterator[str]:
    effort, model = payload.get("output_config", {}).get("effort"), payload["model"]
    if effort is None:
        return
    if effort not in _WORDS:
        words = ", ".join(f"'{word}'" for word in _WORDS[:-1])
        yield f"output_config.effort: Input should be {words} or 'max'"
    if _BUDGETS.search(model) and "opus-4-5" not in model:
        yield "This model does not support the effort parameter."
    if effort == "xhigh" and _BOTH.search(model):
        yield "output_config.effort: 'xhigh' is not supported for this model."
    kind = payload.get("thinking", {}).get("type")
    is_off = kind in ("disabled", "between_tools")
    if is_off and effort in ("xhigh", "max") and _LOWER.search(model):
        yield f'"thinking.type.{kind}" is not supported at {effort} effort.'


def check_sampling(payload: dict[str, Any]) -> Iterator[str]:
    if is_old(payload["model"]):
        return
    for name, default in (("temperature", 1), ("top_p", 0.99), ("top_k", None)):
        if payload.get(name, default) != default:
            yield f"`{name}` is deprecated for this model."


def check_forced_tools(payload: dict[str, Any]) -> Iterator[str]:
    kind = payload.get("tool_choice", {}).get("type")
    if kind in ("any", "tool") and _UNFORCED.search(payload["model"]):
        yield ('tool_choice: type "tool" and "any" are not supported for this model.')


def check_prefill(payload: dict[str, Any]) -> Iterator[str]:
    last, model = payload["messages"][-1], payload["model"]
    if last["role"] != "assistant" or _BUDGETS.search(model):
        return
    # The provider continues after a block of its own.
    content = last["content"]
    if isinstance(content, str) or content[-1]["type"] == "text":
        yield (
            "This model does not support assistant message prefill. The conversation "
            "must end with a user message."
        )
