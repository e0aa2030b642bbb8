"""Check a conversation against the rules of every provider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from ..messages import Message, UserMessage
from ..models.endpoints import ENDPOINTS
from ..models.names import dialect_of
from ..options import ToolSpec
from ..transcript.transcript import Transcript
from .providers.played import PLAYED

__all__ = ["complaints"]

#: Complaints about conversations that were checked before, by their encoding: a sweep
#: checks a few conversations hundreds of times. Reading and adding an entry are atomic.
_KNOWN: Final[dict[bytes, dict[str, str]]] = {}
_MAX_KNOWN: Final = 500


def complaints(
    messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
) -> dict[str, str]:
    """Return the complaints of providers about a conversation, by their names.

    Each gets the conversation as it is, and with another prompt after it. Encoding
    repairs a conversation, so it is also validated as it is; complaints about that are
    under ``transcript``.
    """
    try:
        key = msgspec.msgpack.encode((messages, tools))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _find(messages, tools)
    found = _KNOWN.get(key)
    if found is None:
        found = _find(messages, tools)
        if len(_KNOWN) >= _MAX_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = found
    return dict(found)


def _find(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> dict[str, str]:
    found: dict[str, str] = {}
    problems = Transcript(messages).validate()
    if problems:
        found["transcript"] = "; ".join(problems)
    following = [*messages, UserMessage.of("Go on.")]
    for name, played in PLAYED.items():
        endpoint = ENDPOINTS[name]
        dialect = dialect_of(endpoint)
        for conversation in (messages, following):
            payload = dialect.build_payload(endpoint.example, conversation, tools)
            complaint = played.complaint(msgspec.json.decode(payload), "")
            if complaint is not None:
                found[name] = complaint
    return found
