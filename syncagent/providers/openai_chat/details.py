"""Thinking that a gateway wants back as it came, and the sources of a text."""

from __future__ import annotations

from typing import Any, Final

from ...messages import Citation, ProviderBlock, Text
from ..draft import Draft, OpenText
from ..json_values import as_dicts, as_string, get_path
from .turns import DETAILS
from .wire import ChatChunk

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

    Those of a delta continue earlier ones with the same type and index.
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
        """Add those of a whole message, unless deltas have brought them."""
        return "" if self._found else self.add(details)

    def end(self, draft: Draft) -> None:
        """Add them to a complete message."""
        if self._found:
            details = [detail.close() for detail in self._found.values()]
            draft.blocks.insert(0, ProviderBlock(draft.provider, {DETAILS: details}))


def add_annotations(draft: Draft, annotations: Any) -> None:
    """Add the citations among *annotations* to the text before them."""
    for each in as_dicts(annotations):
        citation = get_path(each, "url_citation")
        if isinstance(citation, dict):
            _add_citation(draft, citation, each)


def add_sources(draft: Draft, chunk: ChatChunk) -> None:
    """Add the sources of a response to its text."""
    addresses = chunk.citations if isinstance(chunk.citations, list) else []
    named = [{"url": url} for url in addresses if isinstance(url, str)]
    for source in as_dicts(chunk.search_results) or named:
        _add_citation(draft, source, source)


def _add_citation(draft: Draft, source: dict[str, Any], data: dict[str, Any]) -> None:
    texts = (b for b in reversed(draft.blocks) if isinstance(b, OpenText))
    text = next((block for block in texts if block.kind is Text), None)
    citation = Citation(
        as_string(source.get("content") or source.get("snippet")),
        as_string(source.get("title")),
        as_string(source.get("url")),
        data,
    )
    citations = (text or draft.open(Text)).citations
    if citation not in citations:  # some servers repeat them with every delta
        citations.append(citation)
