"""Steps without a model: clear old results, and shorten long ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from .._checks import check_number
from ..exceptions import ConfigurationError
from ..messages import Json, Message, ResultBlock, Text, ToolMessage, ToolResult
from .rounds import cut_text
from .sizes import characters_of
from .steps import Room

__all__ = ["ClearResults", "ShortenResults"]

#: Stands in place of a result.
_CLEARED: Final = (
    "[This result was removed to make room. If you need it again, repeat the call.]"
)
#: The length that ShortenResults begins with, in characters, and the shortest one.
_LONGEST: Final = 32_000
_SHORTEST: Final = 500
_ENCODER: Final = msgspec.json.Encoder(enc_hook=repr)


class ClearResults:
    """Replace old tool results by a short note. It costs nothing.

    :param keep: the number of tool rounds, the last ones, whose results stay.
    :param spare: names of tools whose results are never removed.
    :param smallest: results of fewer characters stay, too.
    :raises ConfigurationError: a number is negative, or *spare* is not a list of names.
    """

    def __init__(
        self, keep: int = 3, *, spare: Iterable[str] = (), smallest: int = 200
    ) -> None:
        check_number("keep", keep, is_integer=True)
        check_number("smallest", smallest, is_integer=True)
        names: tuple[Any, ...] = (spare,) if isinstance(spare, str) else tuple(spare)
        if not all(isinstance(name, str) for name in names):
            raise ConfigurationError(
                f"spare must be a list of names of tools; got {spare!r:.80}"
            )
        self.keep: Final = keep
        self.spare: Final = frozenset(names)
        self.smallest: Final = max(smallest, len(_CLEARED))

    def compact(
        self, messages: Sequence[Message], room: Room
    ) -> Sequence[Message] | None:
        """Return the messages with old results cleared; None if there are none."""
        found = [n for n, each in enumerate(messages) if isinstance(each, ToolMessage)]
        made, has_changed = list(messages), False
        for number in found[: len(found) - self.keep] if self.keep else found:
            message = made[number]
            assert isinstance(message, ToolMessage)
            results = tuple(map(self._cleared, message.content))
            if any(a is not b for a, b in zip(results, message.content, strict=True)):
                made[number], has_changed = ToolMessage(results), True
        return made if has_changed else None

    def _cleared(self, result: ToolResult) -> ToolResult:
        is_small = sum(map(characters_of, result.content)) <= self.smallest
        if is_small or result.name in self.spare:
            return result
        return msgspec.structs.replace(result, content=(Text(_CLEARED),))


class ShortenResults:
    """Remove the middle of long tool results, of recent ones too.

    :param shortest: the number of characters that each keeps at least.
    :raises ConfigurationError: that is not a positive number.
    """

    def __init__(self, shortest: int = _SHORTEST) -> None:
        check_number("shortest", shortest, is_integer=True, is_positive=True)
        self.shortest: Final = shortest

    def compact(
        self, messages: Sequence[Message], room: Room
    ) -> Sequence[Message] | None:
        """Return the messages with results as long as fits; None if all are short."""
        made: list[Message] = list(messages)
        longest, has_changed = max(_LONGEST, self.shortest), False
        while True:
            for number, message in enumerate(messages):
                if isinstance(message, ToolMessage):
                    results = tuple(_shortened(r, longest) for r in message.content)
                    if results != message.content:
                        made[number], has_changed = ToolMessage(results), True
            if longest == self.shortest or room.size(made) <= room.target:
                return made if has_changed else None
            longest = max(self.shortest, longest // 2)


def _shortened(result: ToolResult, longest: int) -> ToolResult:
    """Return *result* with texts of at most *longest* characters each."""
    content: list[ResultBlock] = []
    for block in result.content:
        if isinstance(block, Text):
            text = block.text
        elif isinstance(block, Json):
            text = _ENCODER.encode(block.value).decode()
        else:
            content.append(block)
            continue
        short = cut_text(text, longest)
        content.append(block if short == text else Text(short))
    return msgspec.structs.replace(result, content=tuple(content))
