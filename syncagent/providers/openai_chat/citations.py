"""Citations of a response: the sources of its text."""

from __future__ import annotations

from typing import Any

from ...messages import Citation, Text
from ..draft import Draft, OpenText
from ..json_values import as_dicts, as_string, get_path
from .wire import ChatChunk


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
