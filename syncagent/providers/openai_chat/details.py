"""Thinking that a gateway expects back as it came."""

from __future__ import annotations

from typing import Any, Final

from ...messages import ProviderBlock
from ..draft import Draft
from ..json_values import as_dicts, as_string
from .turns import DETAILS

#: The fields of a detail that come in pieces.
_TEXTS: Final = ("text", "summary")


class _Detail:
    """A detail that is still growing."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.pieces: dict[str, list[str]] = {}

    def add(self, detail: dict[str, Any]) -> None:
        for name, value in detail.items():
            if name in _TEXTS and isinstance(value, str):
                self.fields.setdefault(name, "")
                self.pieces.setdefault(name, []).append(value)
            elif value is not None or name not in self.fields:
                self.fields[name] = value

    def close(self) -> dict[str, Any]:
        texts = {name: "".join(pieces) for name, pieces in self.pieces.items()}
        return {**self.fields, **texts}


class Details:
    """The ``reasoning_details`` of a response, as OpenRouter and others send them.

    The details of a delta continue earlier ones with the same type and index.
    """

    def __init__(self) -> None:
        self._found: dict[str, _Detail] = {}

    def add(self, details: Any) -> str:
        """Add the details of a delta, and return the thinking in them."""
        text = ""
        for position, detail in enumerate(as_dicts(details)):
            key = f"{detail.get('type')} {detail.get('index', position)}"
            known = self._found.get(key)
            if known is not None and "data" in known.fields and "data" in detail:
                known = None  # encrypted ones are never continued
                key = f"{key} {len(self._found)}"
            if known is None:
                known = self._found[key] = _Detail()
            known.add(detail)
            text += "".join(as_string(detail.get(name)) for name in _TEXTS)
        return text

    def add_whole(self, details: Any) -> str:
        """Add the details of a whole message, unless deltas have brought them."""
        return "" if self._found else self.add(details)

    def end(self, draft: Draft) -> None:
        """Add all details to a complete message."""
        if self._found:
            details = [detail.close() for detail in self._found.values()]
            draft.blocks.insert(0, ProviderBlock(draft.provider, {DETAILS: details}))
