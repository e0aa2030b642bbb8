"""Shorten a conversation in the middle of a run, before it fills the context window.

From the inside out: ``sizes`` estimates tokens, ``rounds`` finds places at which a
conversation may be cut, ``steps`` has the protocol and the settings; ``clearing`` and
``summaries`` are the steps that come with the package. All of them make new messages
and change nothing; ``run/compacting.py`` decides when, and puts the new conversation in
place of the old one.
"""

from .clearing import ClearResults, ShortenResults
from .steps import Compaction, Compactor, Room
from .summaries import Summarize

__all__ = [
    "ClearResults",
    "Compaction",
    "Compactor",
    "Room",
    "ShortenResults",
    "Summarize",
]
