"""Repair messages, so that they are valid to send.

Valid messages begin with the user's; user and assistant alternate; every tool call has
exactly one result, in the message right after it; nothing is empty. A repair is
deterministic, and changes nothing in valid messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from ..messages import (
    AssistantBlock,
    AssistantMessage,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserBlock,
    UserMessage,
)

__all__ = ["NO_RESULT", "SILENCE", "repaired"]

#: The text of a missing result.
NO_RESULT: Final = "Interrupted: this call has no result."
#: The text of a missing user message.
SILENCE: Final = "(continue)"

_Note = Callable[[str], object]


def repaired(
    messages: Sequence[Message], begin: int = 0, *, note: _Note = lambda problem: None
) -> list[Message]:
    """Return *messages*, starting with number *begin*, repaired.

    :param begin: the number of an assistant message, or 0; those before are valid.
    :param note: called with a description of each problem.
    """
    made: list[Message] = []
    number = begin
    while number < len(messages):
        message = messages[number]
        if isinstance(message, AssistantMessage):
            assistant = _cleaned(message, number, note)
            number += 1
        else:
            assistant = None
        rest: list[Message] = []
        first = number
        while number < len(messages):
            following = messages[number]
            if isinstance(following, AssistantMessage):
                break
            rest.append(following)
            number += 1
        before = made[-1] if made else None
        if assistant is not None and isinstance(before, AssistantMessage):
            note(f"message {number - 1} is a second assistant message in a row")
            # Signatures go back to their provider only, so both must be of the same.
            is_same = before.provider == assistant.provider
            made[-1] = msgspec.structs.replace(
                assistant,
                content=(*before.content, *assistant.content),
                provider=assistant.provider if is_same else "",
            )
        elif assistant is not None:
            if before is None and begin == 0:
                note("the first message is not the user's")
                made.append(UserMessage((Text(SILENCE),)))
            made.append(assistant)
        calls = () if assistant is None else assistant.tool_calls
        _add_rest(made, rest, calls, first, note)
    return made


def _cleaned(
    message: AssistantMessage, number: int, note: _Note
) -> AssistantMessage | None:
    """Return a message without empty blocks and repeated calls, or None if empty."""
    seen: set[str] = set()
    kept: list[AssistantBlock] = []
    for block in message.content:
        if _is_empty(block):
            note(f"message {number} has an empty block")
        elif isinstance(block, ToolCall) and block.call_id in seen:
            note(f"message {number} has the call {block.call_id!r} twice")
        else:
            kept.append(block)
            if isinstance(block, ToolCall):
                seen.add(block.call_id)
    if len(kept) == len(message.content) and kept:
        return message
    if not kept:
        note(f"message {number}, of the assistant, is empty")
        return None
    return msgspec.structs.replace(message, content=tuple(kept))


def _is_empty(block: object) -> bool:
    if not isinstance(block, (Text, Thinking)):
        return False
    return not block.text.strip() and not block.signature


def _add_rest(
    made: list[Message],
    rest: Sequence[Message],
    calls: Iterable[ToolCall],
    first: int,
    note: _Note,
) -> None:
    """Add the rest of a turn: one result for each call, and the user's blocks."""
    valid: list[Message] = []
    open_calls = {call.call_id: call for call in calls}
    found: dict[str, ToolResult] = {}
    for message in rest:
        for result in message.content if isinstance(message, ToolMessage) else ():
            if result.call_id not in open_calls:
                note(f"the result of {result.call_id!r} has no call")
            elif result.call_id in found:
                note(f"there are two results of {result.call_id!r}")
            else:
                found[result.call_id] = result
    for call_id, call in open_calls.items():
        if call_id not in found:
            note(f"the call {call_id!r} has no result")
            found[call_id] = ToolResult(
                call_id, (Text(NO_RESULT),), is_error=True, name=call.name
            )
    if open_calls:
        valid.append(ToolMessage(tuple(found[call_id] for call_id in open_calls)))
    content: list[UserBlock] = []
    for message in rest:
        if isinstance(message, UserMessage):
            content += [block for block in message.content if not _is_empty(block)]
    before = made[-1] if made else None
    if content and not valid and isinstance(before, UserMessage):
        # The assistant message between them was empty, and is dropped.
        made[-1] = UserMessage((*before.content, *content))
    elif content:
        valid.append(UserMessage(tuple(content)))
    if valid == list(rest):
        made += rest
    else:
        if rest:
            note(f"message {first} and those after it are not in a valid order")
        made += valid
