"""Responses of gateways to other vendors: Chat Completions with signatures."""

from __future__ import annotations

from functools import partial
from typing import Final

from . import speech
from .speech import error, error_frames

__all__ = ["LANGUAGE", "body", "error", "error_frames", "frames"]

#: The speech that this one is a variant of.
LANGUAGE: Final = speech

frames = partial(speech.frames, is_signed=True)
body = partial(speech.body, is_signed=True)
