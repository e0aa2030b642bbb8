"""Responses of gateways to other vendors: Chat Completions with signatures."""

from __future__ import annotations

from functools import partial

from . import speech
from .speech import error, error_frames

__all__ = ["body", "error", "error_frames", "frames"]

frames = partial(speech.frames, is_signed=True)
body = partial(speech.body, is_signed=True)
