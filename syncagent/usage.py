"""How many tokens something took."""

from __future__ import annotations

import msgspec

__all__ = ["Usage"]


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens; they can be added up."""

    #: All that went in, cached ones included.
    input_tokens: int = 0
    #: All that came out, reasoning included.
    output_tokens: int = 0
    #: Those of the input that were read from a cache.
    cached_tokens: int = 0
    #: Those of the input that were written to one.
    cache_write_tokens: int = 0
    #: Those of the output that went into reasoning.
    reasoning_tokens: int = 0
    #: Has the provider said none of it, so that it is a guess?
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        if not isinstance(other, Usage):
            return NotImplemented
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.estimated or other.estimated,
        )

    @classmethod
    def estimate(cls, sent: int, received: int) -> Usage:
        """Return a guess, for an answer that was cut off before its usage was told.

        :param sent: the size of the payload, in bytes.
        :param received: the size of what came, in characters.
        """
        return cls(_tokens(sent), _tokens(received), estimated=True)

    @property
    def total_tokens(self) -> int:
        """In and out."""
        return self.input_tokens + self.output_tokens


def _tokens(characters: int) -> int:
    """Four characters are a token, in most languages and more or less."""
    return -(-characters // 4)
