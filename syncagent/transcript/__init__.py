"""The transcript of an agent: its messages, made valid to send.

=======================  ===============================================================
:mod:`~.transcript`      the messages, and how dialects have encoded them
:mod:`~.turns`           messages as alternating turns that every provider accepts
:mod:`~.repair`          messages in a valid order, each call with one result
=======================  ===============================================================
"""

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
