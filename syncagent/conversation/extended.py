"""Add messages to a stored conversation that no run is using."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..messages import Message
from ..transcript.transcript import Transcript
from .restored import decode_state, join_state
from .state import FORMAT, VERSION, Delta, SavedAgent, StoredMessage

__all__ = ["extend_state"]


def extend_state(
    tail: bytes, messages: Sequence[StoredMessage], more: Iterable[Message] = ()
) -> Delta:
    """Return the change that makes the state that of an idle agent with more messages.

    Calls that a cancelled run has left open get their results.

    :param tail: empty for a conversation without runs.
    :raises StateInvalid: the stored state cannot be read.
    :raises ConfigurationError: one of *more* is not a message.
    """
    saved = SavedAgent(format=FORMAT, version=VERSION, messages=())
    if tail:
        saved = decode_state(join_state(tail, messages))
    transcript = Transcript(saved.messages)
    transcript.repair()
    for message in more:
        transcript.append(message)
    transcript.repair()
    first = 0
    for before, now in zip(saved.messages, transcript, strict=False):
        if before is not now:
            break
        first += 1
    idle = SavedAgent(
        format=FORMAT,
        version=VERSION,
        messages=(),
        rules=saved.rules,
        usage=saved.usage if saved.run is None else saved.usage + saved.run.usage,
        unheard=saved.unheard,
    )
    new = tuple(StoredMessage(msgspec.json.encode(each)) for each in transcript[first:])
    return Delta(first, new, msgspec.json.encode(idle))
