"""The transcript of an agent: messages, made valid to send."""

from .repair import NO_RESULT, SILENCE, repaired
from .transcript import Piece, Transcript
from .turns import AssistantTurn, Turn, UserTurn, turns

__all__ = [
    "AssistantTurn",
    "NO_RESULT",
    "Piece",
    "SILENCE",
    "Transcript",
    "Turn",
    "UserTurn",
    "repaired",
    "turns",
]
