"""Events as lines of JSON, and back: what a run tells a file or another program."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from .events import Lagged
from .result import StreamEvent

__all__ = ["decode_event", "encode_event"]


def _spelled(value: Any) -> str:
    """Return something for what JSON has no word for, such as an object of a tool."""
    return repr(value)


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_spelled)
_DECODER: Final = msgspec.json.Decoder(StreamEvent | Lagged)


def encode_event(event: StreamEvent | Lagged) -> bytes:
    """Return *event* as one line, without its end.

    What JSON has no word for, in what a tool or a typed answer says, is its ``repr()``.
    """
    return _ENCODER.encode(event)


def decode_event(line: bytes | str) -> StreamEvent | Lagged:
    """Return the event that a line stands for.

    :raises ValueError: it stands for none.
    """
    event: StreamEvent | Lagged = _DECODER.decode(line)
    return event
