"""A transcript as turns that every provider accepts.

Providers want a user first, user and assistant in turns, and for every tool call an id
of its own and one result, right after it. :func:`turns` makes that of any messages
whatever, also of those that a crash, a cancel, another provider or somebody's editor
has left. It changes nothing that is right.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from ..messages import (
    AssistantMessage,
    Message,
    ResultBlock,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserBlock,
    UserMessage,
)
from .repair import NO_RESULT, SILENCE

__all__ = [
    "AssistantTurn",
    "Turn",
    "UserTurn",
    "turns",
]

#: What stands for a user who has not said anything.
_SILENCE: Final = (Text(SILENCE),)


#: What not every provider takes in the id of a call; and how long one may be, with a
#: number behind it.
_NOT_IN_IDS: Final = re.compile(r"[^A-Za-z0-9_-]")


_LONGEST_ID: Final = 56


class UserTurn(msgspec.Struct, frozen=True):
    """What goes to the model: results of all calls before it, then words."""

    #: The number of the first message that it is made of.
    start: int
    results: tuple[ToolResult, ...] = ()
    content: tuple[UserBlock, ...] = ()


class AssistantTurn(msgspec.Struct, frozen=True):
    """What came from a model, perhaps in several messages."""

    #: The number of the first message that it is made of.
    start: int
    messages: tuple[AssistantMessage, ...] = ()
    #: The tool calls, by the ids that they have in the messages; their own are fit to
    #: be sent, and no other call has them.
    calls: dict[str, ToolCall] = {}


Turn = UserTurn | AssistantTurn


def turns(
    messages: Sequence[Message],
    begin: int = 0,
    *,
    is_beginning: bool = True,
    taken: Collection[str] = (),
) -> Iterator[Turn]:
    """Yield what is to be sent for *messages*, from number *begin* on.

    :param begin: the number of an answer, or 0.
    :param is_beginning: has nothing been sent before?
    :param taken: ids of tool calls before *begin*.
    """
    ids: set[str] = set()
    pending: AssistantTurn | None = None
    asked: dict[str, ToolCall] = {}
    user: list[Message] = []
    start = begin
    for number in range(begin, len(messages)):
        message = messages[number]
        if not isinstance(message, AssistantMessage):
            start = start if user else number
            user.append(message)
            continue
        turn = _user_turn(start if user else number, user, asked)
        if turn is not None or pending is None:
            if pending is not None:
                yield pending
            if turn is not None or is_beginning:
                yield turn or UserTurn(number, (), _SILENCE)
            is_beginning = False
            pending = AssistantTurn(number, (message,), _calls(message, taken, ids))
        else:
            joined = (*pending.messages, message)
            pending = AssistantTurn(pending.start, joined, _calls(message, taken, ids))
        asked, user = pending.calls, []
    if pending is not None:
        yield pending
    last = _user_turn(start if user else len(messages), user, asked)
    yield last or UserTurn(len(messages), (), _SILENCE)


def _user_turn(
    start: int, messages: Iterable[Message], asked: dict[str, ToolCall]
) -> UserTurn | None:
    """Return what answers the calls that were *asked*, and what else was said."""
    given: dict[str, ToolResult] = {}
    content: list[UserBlock] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            for result in message.content:
                given.setdefault(result.call_id, result)
        elif isinstance(message, UserMessage):
            content += [block for block in message.content if not _is_empty(block)]
    results = tuple(
        _result(given.get(call_id), call) for call_id, call in asked.items()
    )
    return UserTurn(start, results, tuple(content)) if results or content else None


def _result(given: ToolResult | None, call: ToolCall) -> ToolResult:
    if given is None:
        content: tuple[ResultBlock, ...] = (Text(NO_RESULT),)
        return ToolResult(call.call_id, content, is_error=True, name=call.name)
    if (given.call_id, given.name) == (call.call_id, call.name):
        return given
    return ToolResult(call.call_id, given.content, given.is_error, call.name)


def _calls(
    message: AssistantMessage, taken: Collection[str], ids: set[str]
) -> dict[str, ToolCall]:
    """Return the calls of *message*, each with an id that is not *taken*, and note it.

    :param ids: those that were given since, to which more are added.
    """
    calls: dict[str, ToolCall] = {}
    for call in message.tool_calls:
        if call.call_id in calls:  # the same twice: once is meant
            continue
        clean = _NOT_IN_IDS.sub("_", call.call_id)[:_LONGEST_ID] or "call"
        call_id = _free_id(clean, taken, ids)
        ids.add(call_id)
        is_same = call_id == call.call_id
        calls[call.call_id] = (
            call if is_same else msgspec.structs.replace(call, call_id=call_id)
        )
    return calls


def _free_id(clean: str, taken: Collection[str], ids: Collection[str]) -> str:
    """Return *clean*, with a number behind it if that is there already.

    Some models use one id again and again: a search from 2 on would take longer with
    every turn, so it goes by leaps, and halves the last of them.
    """
    if clean not in taken and clean not in ids:
        return clean
    used, free = 1, 2
    while (name := f"{clean}_{free}") in taken or name in ids:
        used, free = free, 2 * free
    while free - used > 1:
        middle = (used + free) // 2
        name = f"{clean}_{middle}"
        if name in taken or name in ids:
            used = middle
        else:
            free = middle
    return f"{clean}_{free}"


def _is_empty(block: object) -> bool:
    return isinstance(block, Text) and not block.text.strip()
