"""Estimate the number of tokens of messages.

The estimate alone can be wrong by a factor of three. A run scales it by the usage that
the provider reported last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
    size = _SIZES.get(block.__class__)
    return 0 if size is None else size(block)


def _len_of_text(block: Any) -> int:
    return len(block.text)


#: A look at the class: this is done for every new block of every turn.
_SIZES: Final[dict[type, Callable[[Any], int]]] = {
    Text: _len_of_text,
    Thinking: _len_of_text,
    Refusal: _len_of_text,
    ToolCall: lambda call: len(call.name) + len(call.arguments),
    ToolResult: lambda result: _FRAME + sum(map(characters_of, result.content)),
    Image: lambda image: _PICTURE,
    File: lambda file: _PICTURE + len(file.data) // _DENSITY,
    Json: lambda json: len(_ENCODER.encode(json.value)),
    RedactedThinking: lambda thinking: len(thinking.data),
    ProviderBlock: lambda block: len(_ENCODER.encode(block.data)),
}


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
