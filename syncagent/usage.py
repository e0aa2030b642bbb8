"""Token usage."""

from __future__ import annotations

import msgspec

__all__ = ["Usage"]


class Usage(msgspec.Struct, frozen=True, repr_omit_defaults=True, omit_defaults=True):
    """Numbers of tokens; usages can be added."""

    #: Input tokens, cached ones included.
    input_tokens: int = 0
    #: Output tokens, reasoning included.
    output_tokens: int = 0
    #: Input tokens that were read from a cache.
    cached_tokens: int = 0
    #: Input tokens that were written to a cache.
    cache_write_tokens: int = 0
    #: Output tokens that were spent on reasoning.
    reasoning_tokens: int = 0
    #: True if the provider has not reported all of it, and a part is an estimate.
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
        """Return an estimate, for a response cut off before its usage was reported.

        :param sent: the size of the payload, in bytes.
        :param received: the size of the text that arrived, in characters.
        """
        return cls(_tokens(sent), _tokens(received), estimated=True)

    @property
    def cache_hit_rate(self) -> float:
        """The share of the input that was read from a cache, from 0 to 1."""
        return self.cached_tokens / self.input_tokens if self.input_tokens else 0.0

    @property
    def total_tokens(self) -> int:
        """Input plus output tokens."""
        return self.input_tokens + self.output_tokens


def _tokens(characters: int) -> int:
    """Return the number of tokens, at about four characters each, rounded up."""
    return -(-characters // 4)
