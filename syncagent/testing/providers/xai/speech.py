"""Responses as xAI writes them: as OpenAI does, but sealed with a key of its own."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ..openai_responses import speech as openai_responses
from ..openai_responses.speech import error_frames

__all__ = ["LANGUAGE", "SEAL", "body", "error", "error_frames", "frames"]

#: The speech that this one is a variant of.
LANGUAGE: Final = openai_responses
#: The beginning of encrypted content.
SEAL: Final = "xai-"

frames = partial(openai_responses.frames, seal=SEAL)
body = partial(openai_responses.body, seal=SEAL)


def error(status: int, message: str) -> dict[str, Any]:
    """Return the body of an error with that status."""
    codes = {400: "Client specified an invalid argument", 401: "Unauthenticated"}
    return {"code": codes.get(status, "The service is unavailable"), "error": message}
