"""Estimate the number of tokens of messages.

The estimate alone can be wrong by a factor of three. A run scales it by the usage that
the provider reported last.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from ..messages import (
    AssistantMessage,
    File,
    Image,
    Json,
    Message,
    ProviderBlock,
    RedactedThinking,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

__all__ = ["characters_of", "estimate", "tokens_of"]

#: Characters in a token, about.
_CHARACTERS: Final = 4
#: Added by providers to each message, in characters.
_FRAME: Final = 16
#: An image, or a page of a document, in characters: 1,500 tokens.
_PICTURE: Final = 6000
#: Bytes of a document for each of its characters, about.
_DENSITY: Final = 8
_ENCODER: Final = msgspec.json.Encoder(enc_hook=repr)


def characters_of(block: Any) -> int:
    """Return about how many characters a block has where a model reads it."""
    if isinstance(block, (Text, Thinking, Refusal)):
        return len(block.text)
    if isinstance(block, ToolCall):
        return len(block.name) + len(block.arguments)
    if isinstance(block, ToolResult):
        return _FRAME + sum(map(characters_of, block.content))
    if isinstance(block, Image):
        return _PICTURE
    if isinstance(block, File):
        return _PICTURE + len(block.data) // _DENSITY
    if isinstance(block, Json):
        return len(_ENCODER.encode(block.value))
    if isinstance(block, RedactedThinking):
        return len(block.data)
    if isinstance(block, ProviderBlock):
        return len(_ENCODER.encode(block.data))
    return 0


def tokens_of(characters: int) -> int:
    """Return about how many tokens a text has."""
    return -(-characters // _CHARACTERS)


def estimate(messages: Iterable[Message]) -> int:
    """Return about how many tokens *messages* have."""
    total = 0
    for message in messages:
        blocks: Iterable[Any] = message.content
        if isinstance(message, AssistantMessage) and message.is_cut:
            # Thinking of a message that was cut off is not sent back.
            blocks = (each for each in blocks if not isinstance(each, Thinking))
        total += _FRAME + sum(map(characters_of, blocks))
    return tokens_of(total)
