"""The transcript of an agent, encoded once per message.

Providers want a user first, user and assistant in turns, and for every tool call an id
of its own and one result, right after it. :func:`turns` makes that of any messages
whatever, also of those that a crash, a cancel, another provider or somebody's editor
has left. It changes nothing that is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import overload

from ..exceptions import ConfigurationError
from ..messages import AssistantMessage, Message, ToolMessage, UserMessage
from .repair import repaired
from .turns import AssistantTurn, Turn, turns

__all__ = [
    "Piece",
    "Transcript",
]

#: A part of what is sent.
Piece = bytes | bytearray


def _checked(message: object) -> Message:
    if not isinstance(message, (UserMessage, AssistantMessage, ToolMessage)):
        raise ConfigurationError(
            f"{message!r:.80} is no message; say UserMessage.of('...'), or make some "
            "of JSON with syncagent.messages.decode_messages()"
        )
    return message


class _Memo:
    """What one dialect has made of a transcript so far."""

    def __init__(self) -> None:
        #: How many messages are in :attr:`settled`; what follows is an answer.
        self.count = 0
        self.settled = bytearray()
        #: The ids of tool calls in there.
        self.ids: set[str] = set()
        #: The turns behind those, which may still grow, and what they were made into.
        self.open: dict[int, tuple[Turn, bytes]] = {}

    def copy(self) -> _Memo:
        """Return one of its own."""
        other = _Memo()
        other.count, other.settled = self.count, self.settled.copy()
        other.ids, other.open = self.ids.copy(), self.open.copy()
        return other


class Transcript(Sequence[Message]):
    """The messages of a conversation, in order. It belongs to one thread.

    It remembers what dialects have made of its messages, so that a turn costs what is
    new, and not the whole conversation.

    :param messages: to begin with; a string is what the user says.
    :raises ConfigurationError: one of them is none.
    """

    def __init__(self, messages: Iterable[Message] | str = ()) -> None:
        if isinstance(messages, str):
            messages = [UserMessage.of(messages)]
        self._messages = [_checked(message) for message in messages]
        self._memos: dict[str, _Memo] = {}
        #: What is before this number was found to be right.
        self._sound = 0

    def append(self, message: Message) -> None:
        """Add a message.

        :raises ConfigurationError: it is none.
        """
        self._messages.append(_checked(message))

    def truncate(self, length: int) -> None:
        """Drop all messages but the first so many."""
        del self._messages[length:]
        self._memos.clear()
        self._sound = 0

    def validate(self) -> list[str]:
        """Return what keeps it from being sent as it is, in words; nothing is best."""
        problems: list[str] = []
        repaired(self._messages, note=problems.append)
        return problems

    def repair(self) -> None:
        """Make it valid to send; changes nothing that is right.

        It looks only at what is new since the last time.
        """
        begin = self._sound
        should = repaired(self._messages, begin)
        if should != self._messages[begin:]:
            self._messages[begin:] = should
            self._memos.clear()
        # What follows the last answer may still change.
        for number in range(len(self._messages) - 1, begin, -1):
            if isinstance(self._messages[number], AssistantMessage):
                self._sound = number
                break

    def repaired(self) -> list[Message]:
        """Return the messages as :meth:`repair` would make them."""
        begin = self._sound
        return self._messages[:begin] + repaired(self._messages, begin)

    def copy(self) -> Transcript:
        """Return one of its own, with the same messages and what is known of them."""
        other = Transcript()
        other._messages = self._messages.copy()
        other._memos = {name: memo.copy() for name, memo in self._memos.items()}
        other._sound = self._sound
        return other

    def encode(
        self,
        dialect: str,
        encode: Callable[[Turn], bytes],
        encode_last: Callable[[Turn], bytes] | None = None,
    ) -> list[Piece]:
        """Return all turns in the words of *dialect*, with commas between them.

        Each is encoded once, and again only if it has grown. They come in pieces, so
        that those of a long conversation are copied once, into the payload.

        :param encode: makes JSON, or several with commas between them, of a turn.
        :param encode_last: the same for the last one, if that is special.
        """
        memo = self._memos.setdefault(dialect, _Memo())
        try:
            return self._encode(memo, encode, encode_last)
        except BaseException:  # half of what is remembered would be said twice
            self._memos.pop(dialect, None)
            raise

    def _encode(
        self,
        memo: _Memo,
        encode: Callable[[Turn], bytes],
        encode_last: Callable[[Turn], bytes] | None,
    ) -> list[Piece]:
        found = list(
            turns(
                self._messages,
                memo.count,
                is_beginning=not memo.settled,
                taken=memo.ids,
            )
        )
        settled = max(
            (n for n, turn in enumerate(found) if isinstance(turn, AssistantTurn)),
            default=0,
        )
        known, memo.open = memo.open, {}
        parts: list[bytes] = []
        for number, turn in enumerate(found):
            if encode_last is not None and number == len(found) - 1:
                parts.append(encode_last(turn))
                continue
            before = known.get(turn.start)
            is_known = before is not None and before[0] == turn
            part = before[1] if before is not None and is_known else encode(turn)
            if number < settled:
                memo.settled += part + b","
                if isinstance(turn, AssistantTurn):
                    memo.ids.update(call.call_id for call in turn.calls.values())
            else:
                memo.open[turn.start] = (turn, part)
                parts.append(part)
        if settled:
            memo.count = found[settled].start
        return [memo.settled, b",".join(parts)]

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...

    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        return self._messages[index]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    def __repr__(self) -> str:
        return f"<Transcript of {len(self)} messages>"
