"""Messages as alternating turns that every provider accepts.

Providers want the user first, user and assistant to alternate, and for every tool call
an id of its own and one result, right after it. :func:`turns` makes such turns of any
messages, also of those that a crash, a cancel, another provider or a text editor has
left. Valid messages stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from ..messages import (
    AssistantMessage,
    Message,
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

#: The content of a missing user turn.
_SILENCE: Final = (Text(SILENCE),)


#: Characters that some providers reject in the id of a call.
_NOT_IN_IDS: Final = re.compile(r"[^A-Za-z0-9_-]")
#: The longest id that every provider takes.
_MAX_ID: Final = 40


class UserTurn(msgspec.Struct, frozen=True):
    """A turn of the user: the results of all calls before it, then other content."""

    #: The number of its first message.
    start: int
    results: tuple[ToolResult, ...] = ()
    content: tuple[UserBlock, ...] = ()


class AssistantTurn(msgspec.Struct, frozen=True):
    """A turn of the model, in one message or several."""

    #: The number of its first message.
    start: int
    messages: tuple[AssistantMessage, ...] = ()
    #: The tool calls by their ids in the messages. Their own ids are valid for every
    #: provider, and unique.
    calls: dict[str, ToolCall] = {}


Turn = UserTurn | AssistantTurn


def turns(
    messages: Sequence[Message],
    begin: int = 0,
    *,
    is_beginning: bool = True,
    taken: Collection[str] = (),
) -> Iterator[Turn]:
    """Yield the turns of *messages*, starting with number *begin*.

    :param begin: the number of an assistant message, or 0.
    :param is_beginning: True if no turn comes before.
    :param taken: ids of tool calls before *begin*.
    """
    ids: set[str] = set()
    pending: AssistantTurn | None = None
    calls: dict[str, ToolCall] = {}
    user: list[Message] = []
    start = begin
    for number in range(begin, len(messages)):
        message = messages[number]
        if not isinstance(message, AssistantMessage):
            start = start if user else number
            user.append(message)
            continue
        turn = _user_turn(start if user else number, user, calls)
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
        calls, user = pending.calls, []
    if pending is not None:
        yield pending
    last = _user_turn(start if user else len(messages), user, calls)
    yield last or UserTurn(len(messages), (), _SILENCE)


def _user_turn(
    start: int, messages: Iterable[Message], calls: dict[str, ToolCall]
) -> UserTurn | None:
    """Return the results of the *calls* and the other content, or None if empty."""
    found: dict[str, ToolResult] = {}
    content: list[UserBlock] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            for result in message.content:
                found.setdefault(result.call_id, result)
        elif isinstance(message, UserMessage):
            content += [
                block
                for block in message.content
                if not isinstance(block, Text) or block.text.strip()
            ]
    results: list[ToolResult] = []
    for call_id, call in calls.items():
        found_result = found.get(call_id)
        id, name = call.call_id, call.name
        if found_result is None:
            results.append(ToolResult(id, (Text(NO_RESULT),), True, name))
        elif (found_result.call_id, found_result.name) == (id, name):
            results.append(found_result)
        else:
            results.append(
                ToolResult(id, found_result.content, found_result.is_error, name)
            )
    if not results and not content:
        return None
    return UserTurn(start, tuple(results), tuple(content))


def _calls(
    message: AssistantMessage, taken: Collection[str], ids: set[str]
) -> dict[str, ToolCall]:
    """Return the calls of *message*, each with an id that no other call has.

    :param taken: ids of earlier calls.
    :param ids: more of them; the ids of these calls are added.
    """
    calls: dict[str, ToolCall] = {}
    for call in message.tool_calls:
        if call.call_id in calls:  # a repeated call counts once
            continue
        clean = _NOT_IN_IDS.sub("_", call.call_id)[:_MAX_ID] or "call"
        call_id = _free_id(clean, taken, ids)
        ids.add(call_id)
        is_same = call_id == call.call_id
        calls[call.call_id] = (
            call if is_same else msgspec.structs.replace(call, call_id=call_id)
        )
    return calls


def _free_id(clean: str, taken: Collection[str], ids: Collection[str]) -> str:
    """Return *clean*, with a number at its end if it is taken.

    Some models use the same id again and again. A linear search would take longer with
    every turn, so the number is doubled until it is free, and then bisected.
    """

    def is_taken(number: int) -> bool:
        name = _numbered(clean, number)
        return name in taken or name in ids

    if clean not in taken and clean not in ids:
        return clean
    used, free = 1, 2
    while is_taken(free):
        used, free = free, 2 * free
    while free - used > 1:
        middle = (used + free) // 2
        used, free = (middle, free) if is_taken(middle) else (used, middle)
    return _numbered(clean, free)


def _numbered(clean: str, number: int) -> str:
    end = f"_{number}"
    return clean[: _MAX_ID - len(end)] + end
