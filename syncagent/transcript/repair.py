"""Make messages valid to send: deterministic, and the same when done twice.

What is right: a user first; then user and assistant in turns; for every tool call
exactly one result, in the message right after it; nothing that is empty.
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

#: What stands for a result that is not there.
NO_RESULT: Final = "Interrupted: this call has no result."
#: What stands for a user who has not said anything.
SILENCE: Final = "(continue)"

_Note = Callable[[str], object]


def repaired(
    messages: Sequence[Message], begin: int = 0, *, note: _Note = lambda problem: None
) -> list[Message]:
    """Return *messages* from number *begin* on, as they should be.

    :param begin: the number of an answer, or 0: what is before is taken to be right.
    :param note: called with what is wrong, in words, for each thing that is changed.
    """
    made: list[Message] = []
    number = begin
    while number < len(messages):
        message = messages[number]
        if isinstance(message, AssistantMessage):
            answer = _answer(message, number, note)
            number += 1
        else:
            answer = None
        rest: list[Message] = []
        first = number
        while number < len(messages):
            following = messages[number]
            if isinstance(following, AssistantMessage):
                break
            rest.append(following)
            number += 1
        if answer is not None:
            _add_answer(made, answer, number, note, is_begin=begin == 0)
        calls = () if answer is None else answer.tool_calls
        _add_rest(made, rest, calls, first, note)
    return made


def _answer(
    message: AssistantMessage, number: int, note: _Note
) -> AssistantMessage | None:
    """Return an answer without what is empty, or there twice; None if that is all."""
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


def _add_answer(
    made: list[Message],
    answer: AssistantMessage,
    number: int,
    note: _Note,
    *,
    is_begin: bool,
) -> None:
    before = made[-1] if made else None
    if before is None:
        if is_begin:
            note("the user does not come first")
            made.append(UserMessage((Text(SILENCE),)))
        made.append(answer)
    elif isinstance(before, AssistantMessage):
        note(f"message {number - 1} is a second answer in a row")
        made[-1] = _joined(before, answer)
    else:
        made.append(answer)


def _joined(first: AssistantMessage, second: AssistantMessage) -> AssistantMessage:
    # What providers want back unchanged goes back only if all of it is of one.
    provider = first.provider if first.provider == second.provider else ""
    return msgspec.structs.replace(
        second, content=(*first.content, *second.content), provider=provider
    )


def _add_rest(
    made: list[Message],
    rest: Sequence[Message],
    calls: Iterable[ToolCall],
    first: int,
    note: _Note,
) -> None:
    """Add what follows an answer: one result for each of its calls, and words."""
    should: list[Message] = []
    wanted = {call.call_id: call for call in calls}
    given = _results(rest, wanted, note)
    if wanted:
        results = tuple(
            given.get(call_id) or _no_result(call) for call_id, call in wanted.items()
        )
        should.append(ToolMessage(results))
    words = _words(rest)
    before = made[-1] if made else None
    if words and not should and isinstance(before, UserMessage):
        # The answer between them was empty, and is gone.
        made[-1] = UserMessage((*before.content, *words))
    elif words:
        should.append(UserMessage(words))
    if should == list(rest):
        made += rest
    else:
        if rest:
            note(f"message {first} and those after it come in no order to be sent in")
        made += should


def _results(
    rest: Iterable[Message], wanted: dict[str, ToolCall], note: _Note
) -> dict[str, ToolResult]:
    given: dict[str, ToolResult] = {}
    for message in rest:
        for result in message.content if isinstance(message, ToolMessage) else ():
            if result.call_id not in wanted:
                note(f"there is a result of {result.call_id!r}, which nobody called")
            elif result.call_id in given:
                note(f"there are two results of {result.call_id!r}")
            else:
                given[result.call_id] = result
    for call_id in wanted:
        if call_id not in given:
            note(f"the call {call_id!r} has no result")
    return given


def _words(rest: Iterable[Message]) -> tuple[UserBlock, ...]:
    said: list[UserBlock] = []
    for message in rest:
        if isinstance(message, UserMessage):
            said += [block for block in message.content if not _is_empty(block)]
    return tuple(said)


def _no_result(call: ToolCall) -> ToolResult:
    return ToolResult(call.call_id, (Text(NO_RESULT),), is_error=True, name=call.name)
