"""Log records: copies for another thread, masked credentials, and run ids."""

from __future__ import annotations

import copy
import logging
import math
import sys
from typing import Any, Final

from .._context import run_id
from .._redaction import MASK, is_secret_name, redact

__all__ = [
    "RedactionFilter",
    "RunIdFilter",
    "extras_of",
    "plain",
    "redact_record",
    "snapshot",
]

_BARE: Final = frozenset(vars(logging.makeLogRecord({})))
#: The attributes of a record without any ``extra``.
_STANDARD: Final = _BARE | {"asctime", "message", "run_id", "taskName"}
_MAX_DEPTH: Final = 8
#: Python refuses to print much larger integers in decimal.
_MAX_INT_BITS: Final = 4096
_FILTERS_REPLACE: Final = sys.version_info >= (3, 12)

_tracebacks = logging.Formatter()


# -- copies ------------------------------------------------------------------------


def snapshot(record: logging.LogRecord, *, keeps_extras: bool) -> logging.LogRecord:
    """Return a copy of *record* that shares nothing mutable with the caller.

    Message and traceback become text here, on the thread that logs: later their
    objects may have changed, may belong to that thread, and must not be kept alive.
    The record itself is not changed, because other handlers see it too.

    :param keeps_extras: true to keep the fields of ``extra``, as plain values.
    """
    snapped = logging.LogRecord.__new__(logging.LogRecord)
    fields = snapped.__dict__
    fields.update(record.__dict__)
    fields["msg"] = _message_of(record)
    fields["args"] = None
    fields["run_id"] = _run_id_of(record)
    if record.exc_info:
        fields["exc_text"] = _exception_text(record)
        fields["exc_info"] = None
    if len(fields) > len(_BARE) + 1:
        for name in fields.keys() - _STANDARD:
            if keeps_extras:
                fields[name] = plain(fields[name])
            else:
                del fields[name]
    return snapped


def extras_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of ``extra``, in their order."""
    fields = record.__dict__
    return {name: fields[name] for name in fields if name not in _STANDARD}


def _run_id_of(record: logging.LogRecord) -> str:
    explicit = record.__dict__.get("run_id")
    return run_id.get() if explicit is None else str(explicit)


def _message_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # the arguments do not fit, or a user's __str__ failed
        return f"{_printed(record.msg)} % {_printed(record.args)}"


def _exception_text(record: logging.LogRecord) -> str | None:
    if record.exc_text:
        return record.exc_text
    if not record.exc_info or record.exc_info[0] is None:
        return None
    return _tracebacks.formatException(record.exc_info)


def _printed(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # a broken __repr__ must not stop a run
        return f"<unprintable {type(value).__name__}>"


def plain(value: object) -> Any:
    """Return *value* as JSON values; anything else becomes its ``repr``."""
    try:
        return _plain(value, 0)
    except Exception:  # containers may change on another thread, subclasses may raise
        return _printed(value)


def _plain(value: object, depth: int) -> Any:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        number = int.__index__(value)
        return number if number.bit_length() <= _MAX_INT_BITS else hex(number)
    if isinstance(value, float):
        real = float.__float__(value)
        return real if math.isfinite(real) else repr(real)
    if depth < _MAX_DEPTH and isinstance(value, dict):
        return {
            str.__str__(key) if isinstance(key, str) else _printed(key): _plain(
                each, depth + 1
            )
            for key, each in value.items()
        }
    if depth < _MAX_DEPTH and isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(each, depth + 1) for each in value]
    return _printed(value)


# -- credentials -------------------------------------------------------------------


def redact_record(record: logging.LogRecord) -> None:
    """Mask message, traceback, stack and extras of *record*, in place."""
    fields = record.__dict__
    fields["msg"] = redact(_message_of(record))
    fields["args"] = None
    if "message" in fields:
        fields["message"] = fields["msg"]
    traceback = _exception_text(record)
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
    text = _printed(value)
    masked = redact(text)
    return value if masked == text else masked


# -- filters for the user's own handlers -------------------------------------------


class RedactionFilter(logging.Filter):
    """Mask credentials in the records that pass; add it to handlers of your own.

    Message and arguments, traceback, stack and extras are covered. On Python 3.12 and
    later the handler gets a masked copy; before, a filter cannot replace a record, and
    later handlers see the masked one too.
    """

    def filter(self, record: logging.LogRecord) -> Any:
        """Return the masked record; every record passes."""
        masked = copy.copy(record) if _FILTERS_REPLACE else record
        redact_record(masked)
        return masked


class RunIdFilter(logging.Filter):
    """Give every record a ``run_id``, for formats with ``%(run_id)s``.

    Only handlers of your own need it; :func:`~syncagent.logs.configure` has it built
    in. Outside of a run the id is ``-``.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Set ``record.run_id`` unless the caller gave one; every record passes."""
        record.run_id = _run_id_of(record)
        return True
