"""Places at which a conversation may be cut, and shorter forms of its texts.

A response stays whole: its thinking, signatures and reasoning items belong to its
calls. The results stay with the calls, and a response that the provider paused stays
with the one that continued it. So a conversation is only cut right before a response
that follows something else.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..messages import AssistantMessage, Message

__all__ = ["cut_text", "rounds"]


def rounds(messages: Sequence[Message]) -> list[int]:
    """Return the numbers of the messages before which *messages* may be cut."""
    found: list[int] = []
    is_after_response = True  # nothing stays before the first message
    for number, message in enumerate(messages):
        is_response = isinstance(message, AssistantMessage)
        if is_response and not is_after_response:
            found.append(number)
        is_after_response = is_response
    return found


def cut_text(text: str, longest: int) -> str:
    """Return *text*, without its middle if it is longer than *longest* characters."""
    if len(text) <= longest:
        return text
    half = max(1, longest // 2)
    note = f"\n[{len(text) - 2 * half} characters were removed here]\n"
    if len(note) + 2 * half >= len(text):
        return text
    return text[:half] + note + text[-half:]
