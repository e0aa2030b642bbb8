"""The messages of an agent, which dialects encode once each.

A conversation only grows at its end, so the encoded form of its beginning is kept for
every dialect: a turn costs as much as the messages that are new.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import overload

from .._short import counted
from ..exceptions import ConfigurationError
from ..messages import AssistantMessage, Message, ToolMessage, UserMessage
from .markdown import conversation_markdown
from .repair import repaired
from .turns import AssistantTurn, Turn, turns

__all__ = [
    "Piece",
    "Transcript",
    "TranscriptView",
]

#: A part of an encoded conversation.
Piece = bytes | bytearray


def _checked(message: object) -> Message:
    if not isinstance(message, (UserMessage, AssistantMessage, ToolMessage)):
        raise ConfigurationError(
            f"{message!r:.80} is not a message; write UserMessage.of('...'), or decode "
            "JSON with syncagent.messages.decode_messages()"
        )
    return message


class _Memo:
    """The encoded form of a transcript, in one encoding."""

    def __init__(self) -> None:
        #: The number of messages in :attr:`settled`; the next is the assistant's.
        self.count = 0
        self.settled = bytearray()
        #: The ids of tool calls in there.
        self.ids: set[str] = set()
        #: The turns after those, which may still grow, and their encoded form.
        self.open: dict[int, tuple[Turn, bytes]] = {}

    def copy(self) -> _Memo:
        """Return an independent copy."""
        other = _Memo()
        other.count, other.settled = self.count, self.settled.copy()
        other.ids, other.open = self.ids.copy(), self.open.copy()
        return other


class Transcript(Sequence[Message]):
    """The messages of a conversation, in order. It belongs to one thread.

    It remembers how dialects have encoded its messages, so that a turn costs as much
    as what is new, and not as the whole conversation.

    :param messages: the first messages; a string is a user message.
    :raises ConfigurationError: one of them is not a message.
    """

    def __init__(self, messages: Iterable[Message] | str = ()) -> None:
        if isinstance(messages, str):
            messages = [UserMessage.of(messages)]
        if not isinstance(messages, Iterable):
            raise ConfigurationError(f"messages must be a list; got {messages!r:.80}")
        self._messages = [_checked(message) for message in messages]
        self._memos: dict[Hashable, _Memo] = {}
        #: The messages before this number are known to be valid.
        self._valid = 0
        #: The first messages that a store has, and that have not changed since.
        self.stored = 0
        #: Tokens for each estimated token, by the usage that was reported last.
        self.scale = 1.0

    def append(self, message: Message) -> None:
        """Add a message.

        :raises ConfigurationError: it is not a message.
        """
        self._messages.append(_checked(message))

    def truncate(self, length: int) -> None:
        """Drop all messages except the first *length*."""
        del self._messages[length:]
        self._memos.clear()
        self._valid = 0
        self.stored = min(self.stored, length)

    def replace(self, messages: Sequence[Message]) -> None:
        """Put *messages* in place of all, in one step. Safe to repeat.

        Other threads see the old messages or the new ones.
        """
        made = [_checked(message) for message in messages]
        pairs = zip(self._messages[: self.stored], made, strict=False)
        same = 0
        for before, after in pairs:
            if before is not after:
                break
            same += 1
        self._memos.clear()
        self._valid, self.stored = 0, same
        self._messages = made  # last: until here nothing has happened

    def validate(self) -> list[str]:
        """Return the problems that a repair would cure; empty if it is valid."""
        problems: list[str] = []
        repaired(self._messages, note=problems.append)
        return problems

    def repair(self) -> None:
        """Make it valid to send; valid messages stay as they are.

        Only messages that are new since the last time are checked.
        """
        begin = self._valid
        valid = repaired(self._messages, begin)
        if valid != self._messages[begin:]:
            self._messages[begin:] = valid
            self._memos.clear()
            self.stored = min(self.stored, begin)
        # Messages after the last assistant message may still change.
        for number in range(len(self._messages) - 1, begin, -1):
            if isinstance(self._messages[number], AssistantMessage):
                self._valid = number
                break

    def repaired(self) -> list[Message]:
        """Return the messages as :meth:`repair` would make them."""
        begin = self._valid
        return self._messages[:begin] + repaired(self._messages, begin)

    @property
    def last_text(self) -> str:
        """The text of the last response; empty before the first."""
        for message in reversed(self._messages):
            if isinstance(message, AssistantMessage):
                return message.text
        return ""

    def copy(self) -> Transcript:
        """Return an independent copy, with the same messages and encoded forms."""
        other = Transcript()
        other._messages = self._messages.copy()
        other._memos = {name: memo.copy() for name, memo in self._memos.items()}
        other._valid, other.scale = self._valid, self.scale
        return other

    def encode(
        self,
        key: Hashable,
        encode: Callable[[Turn], bytes],
        encode_last: Callable[[Turn], bytes] | None = None,
    ) -> list[Piece]:
        """Return all turns in one encoding, with commas between them.

        Each turn is encoded once, and again only if it has grown. The result comes in
        pieces, so that a long conversation is copied once, into the payload.

        :param key: identifies the encoding: the dialect, and what it depends on.
        :param encode: encodes a turn, as one JSON value or several with commas.
        :param encode_last: encodes the last turn, if that is special.
        """
        memo = self._memos.setdefault(key, _Memo())
        try:
            return self._encode(memo, encode, encode_last)
        except BaseException:  # a half-updated memo would send turns twice
            self._memos.pop(key, None)
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
        return f"<Transcript of {counted(len(self), 'message')}>"

    def _repr_markdown_(self) -> str:
        """Return the conversation, for notebooks."""
        return conversation_markdown(self)


class TranscriptView(Sequence[Message]):
    """The messages of a transcript, for reading only. It shows later changes."""

    __slots__ = ("_transcript",)

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...

    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        return self._transcript[index]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._transcript)

    def __len__(self) -> int:
        return len(self._transcript)

    def __repr__(self) -> str:
        return f"<view of {len(self)} messages>"
