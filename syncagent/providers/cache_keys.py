"""Keys that lead requests with the same beginning to the same cache."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

from ..messages import Message, Text, UserMessage
from ..options import Options

__all__ = ["openai_cache_fields"]

#: The endpoints of OpenAI itself. A compatible server may reject the field, so it gets
#: only a key that the caller chose.
_OPENAI: Final = ("openai", "openai-chat")
#: How much of a text counts. Conversations that begin alike may share a key.
_LENGTH: Final = 2_000


def openai_cache_fields(
    issuer: str, transcript: Sequence[Message], options: Options
) -> dict[str, Any]:
    """Return the field with the key of the cache, if the endpoint takes one."""
    if options.cache_key:
        return {"prompt_cache_key": options.cache_key}
    if issuer not in _OPENAI:
        return {}
    return {"prompt_cache_key": _key_of(transcript, options.system)}


def _key_of(transcript: Sequence[Message], system: str) -> str:
    """Return the same key for all turns of a conversation, also after a save."""
    digest = blake2b(system[:_LENGTH].encode("utf-8", "replace"), digest_size=16)
    first = transcript[0] if len(transcript) else None
    if isinstance(first, UserMessage):
        for block in first.content:
            if isinstance(block, Text):
                digest.update(b"\0" + block.text[:_LENGTH].encode("utf-8", "replace"))
    return digest.hexdigest()
