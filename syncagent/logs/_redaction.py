"""Keys, bearer tokens and passwords made unreadable in log records."""

from __future__ import annotations

import copy
import logging
import sys
from typing import Any

from .._redaction import MASK, is_secret_name, redact
from ._record import exception_text, extras_of, message_of, printed

__all__ = ["RedactionFilter", "redact_record"]

_MAX_DEPTH = 8
_FILTERS_REPLACE = sys.version_info >= (3, 12)


def redact_record(record: logging.LogRecord) -> None:
    """Mask message, traceback, stack and extras of *record*, in place."""
    fields = record.__dict__
    fields["msg"] = redact(message_of(record))
    fields["args"] = None
    if "message" in fields:
        fields["message"] = fields["msg"]
    traceback = exception_text(record)
    if traceback is not None:
        fields["exc_text"] = redact(traceback)
    fields["exc_info"] = None
    if record.stack_info:
        fields["stack_info"] = redact(record.stack_info)
    for name, value in extras_of(record).items():
        fields[name] = _redact_value(value, name, 0)


def _redact_value(value: Any, name: str, depth: int) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, float):
        return value
    if isinstance(value, (str, bytes)) and value and is_secret_name(name):
        return MASK
    if kind is str:
        return redact(value)
    if kind is dict and depth < _MAX_DEPTH:
        return {
            redact(key) if isinstance(key, str) else key: _redact_value(
                each, key if isinstance(key, str) else name, depth + 1
            )
            for key, each in list(value.items())
        }
    if kind in (list, tuple, set, frozenset) and depth < _MAX_DEPTH:
        return kind([_redact_value(each, name, depth + 1) for each in list(value)])
    shown = printed(value)
    masked = redact(shown)
    return value if masked == shown else masked


class RedactionFilter(logging.Filter):
    """Mask credentials in the records that pass; put it on handlers of your own.

    Message and arguments, traceback, stack and extras are covered. From Python 3.12 on
    the handler gets a masked copy; before, filters cannot replace a record, and
    handlers that come later see the masked one too.
    """

    def filter(self, record: logging.LogRecord) -> Any:
        """Return the masked record; every record passes."""
        masked = copy.copy(record) if _FILTERS_REPLACE else record
        redact_record(masked)
        return masked
