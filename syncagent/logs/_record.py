"""Copies of log records that may cross to another thread."""

from __future__ import annotations

import logging
import math
from typing import Any

from .._context import run_id

__all__ = [
    "STANDARD",
    "exception_text",
    "extras_of",
    "message_of",
    "plain",
    "printed",
    "run_id_of",
    "snapshot",
]

#: What a record has without any ``extra``.
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {
    "asctime",
    "message",
    "run_id",
    "taskName",
}

_BARE_SIZE = len(vars(logging.makeLogRecord({})))
_MAX_DEPTH = 8
#: Beyond it Python refuses to print an integer in decimal.
_MAX_INT_BITS = 4096

_tracebacks = logging.Formatter()


def snapshot(record: logging.LogRecord, *, keeps_extras: bool) -> logging.LogRecord:
    """Return a copy of *record* that shares nothing mutable with the caller.

    Message and traceback become text here, on the thread that logs: later their
    objects may have changed, may belong to that thread, and must not be kept alive.
    The record itself is left as it is, because other handlers see it too.

    :param keeps_extras: whether the fields of ``extra`` come along, as plain values.
    """
    copy = logging.LogRecord.__new__(logging.LogRecord)
    fields = copy.__dict__
    fields.update(record.__dict__)
    fields["msg"] = message_of(record)
    fields["args"] = None
    fields["run_id"] = run_id_of(record)
    if record.exc_info:
        fields["exc_text"] = exception_text(record)
        fields["exc_info"] = None
    if len(fields) > _BARE_SIZE + 1:
        _settle_extras(fields, keeps_extras)
    return copy


def _settle_extras(fields: dict[str, Any], keeps_extras: bool) -> None:
    for name in fields.keys() - STANDARD:
        if keeps_extras:
            fields[name] = plain(fields[name])
        else:
            del fields[name]


def run_id_of(record: logging.LogRecord) -> str:
    """Return the run id given as ``extra``, or that of the current context."""
    given = record.__dict__.get("run_id")
    return run_id.get() if given is None else str(given)


def message_of(record: logging.LogRecord) -> str:
    """Return the message of *record*, also when its arguments do not fit."""
    try:
        return record.getMessage()
    except Exception:  # any ``__str__`` of the user's may have failed
        return f"{printed(record.msg)} % {printed(record.args)}"


def exception_text(record: logging.LogRecord) -> str | None:
    """Return the traceback of *record* as text, if it has one."""
    if record.exc_text:
        return record.exc_text
    if not record.exc_info or record.exc_info[0] is None:
        return None
    return _tracebacks.formatException(record.exc_info)


def extras_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields that came with ``extra``, in their order."""
    fields = record.__dict__
    return {name: fields[name] for name in fields if name not in STANDARD}


def printed(value: object) -> str:
    """Return ``repr(value)``, or a placeholder where that fails."""
    try:
        return repr(value)
    except Exception:  # a broken ``__repr__`` must not stop a run
        return f"<unprintable {type(value).__name__}>"


def plain(value: object) -> Any:
    """Return *value* as what JSON knows; anything else becomes its ``repr``."""
    try:
        return _plain(value, 0)
    except Exception:  # containers change under us, subclasses lie
        return printed(value)


def _plain(value: object, depth: int) -> Any:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return _plain_int(int.__index__(value))
    if isinstance(value, float):
        number = float.__float__(value)
        return number if math.isfinite(number) else repr(number)
    if depth < _MAX_DEPTH and isinstance(value, dict):
        return {_key(key): _plain(each, depth + 1) for key, each in value.items()}
    if depth < _MAX_DEPTH and isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(each, depth + 1) for each in value]
    return printed(value)


def _plain_int(value: int) -> int | str:
    return value if value.bit_length() <= _MAX_INT_BITS else hex(value)


def _key(key: object) -> str:
    return str.__str__(key) if isinstance(key, str) else printed(key)
