"""Fields that some models of OpenAI's reject."""

from __future__ import annotations

import re
from typing import Any, Final

_ALL: Final = "none minimal low medium high xhigh max"
#: The efforts of each model, by the beginning of its name; the first that fits counts.
_EFFORTS: Final = {
    r"gpt-[34]|chatgpt-4|gpt-5-chat": "",
    r"o\d|codex-mini|gpt-5-codex|gpt-5\.1-codex(?!-max)": "low medium high",
    r"gpt-5\.\d-codex": "low medium high xhigh",
    r"gpt-5\.\d-chat": "medium",
    r"gpt-5\.\d-pro": "medium high xhigh",
    r"gpt-5-pro": "high",
    r"gpt-5\.1": "none low medium high",
    r"gpt-5\.[2-5]": "none low medium high xhigh",
    r"gpt-5(?!\.)": "minimal low medium high",
    r"gpt-6-astra": "low medium high xhigh max",
    r"gpt-\d": "none low medium high xhigh max",
}


def check_model(payload: dict[str, Any]) -> str | None:
    """Return a complaint about a field that the model does not have."""
    model = payload["model"]
    found = (words for name, words in _EFFORTS.items() if re.match(name, model))
    efforts = next(found, _ALL).split()
    effort = (payload.get("reasoning") or {}).get("effort")
    if effort is not None and effort not in _ALL.split():
        return f"Invalid value: {effort!r}. {_supported(_ALL.split())}"
    if not efforts:
        if "reasoning.encrypted_content" in (payload.get("include") or ()):
            return "Encrypted content is not supported with this model."
        if effort is not None:
            return _unsupported("reasoning.effort")
        items = payload.get("input")
        kinds = [each.get("type") for each in items] if isinstance(items, list) else []
        if "reasoning" in kinds:
            return (
                "Reasoning input items can only be provided to a reasoning or computer "
                "use model. Remove reasoning items from your input and try again."
            )
        return None
    if effort is not None and effort not in efforts:
        return (
            f"Unsupported value: {effort!r} is not supported with the {model!r} model. "
            + _supported(efforts)
        )
    always = re.match(r"o\d|gpt-5(?!\.)|gpt-6-astra", model)
    if always or (re.match(r"gpt-\d", model) and effort not in (None, "none")):
        for name in ("temperature", "top_p"):
            if payload.get(name) is not None:
                return _unsupported(name)
    return None


def _supported(efforts: list[str]) -> str:
    *others, last = map(repr, efforts)
    return f"Supported values are: {', '.join(others)}, and {last}."


def _unsupported(name: str) -> str:
    return f"Unsupported parameter: {name!r} is not supported with this model."
