"""Responses of gateways to other vendors: Chat Completions with signatures."""

from __future__ import annotations

from functools import partial

from . import speech
from .speech import error, error_frames

__all__ = ["LANGUAGE", "body", "error", "error_frames", "frames"]

#: The speech that it is a variant of.
LANGUAGE = speech

frames = partial(speech.frames, is_signed=True)
body = partial(speech.body, is_signed=True)
