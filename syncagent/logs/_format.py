"""How a record looks in a file: a line of text, or a line of JSON."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from typing import Any

from .._context import NO_RUN
from ._record import extras_of

__all__ = ["JsonFormatter", "TextFormatter"]

#: Continuation lines of one text record; no record starts like this.
CONTINUED = "\n    | "

_RESERVED = frozenset(
    ("ts", "level", "logger", "run_id", "pid", "thread", "message", "exc", "stack")
)

# What could end a line or steer a terminal; a tab is harmless.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL_BUT_NEWLINE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
# What ``json`` leaves as it is, though it ends a line for some readers or is no UTF-8.
_NOT_IN_JSON = re.compile(r"[\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class TextFormatter(logging.Formatter):
    """Head and message; further lines are indented behind a bar.

    Nobody can forge a record by logging a line break: what follows it never starts in
    the first column, and other control characters appear as escapes.
    """

    def format(self, record: logging.LogRecord) -> str:
        head = _CONTROL.sub(_escaped, self._head(record))
        parts = (record.msg, record.exc_text, record.stack_info)
        body = "\n".join(part for part in parts if part)
        body = _CONTROL_BUT_NEWLINE.sub(_escaped, body.replace("\r\n", "\n"))
        return head + body.replace("\n", CONTINUED)

    def _head(self, record: logging.LogRecord) -> str:
        return (
            f"{_timestamp(record)} {record.levelname:<8} {_pid(record)} "
            f"[{record.threadName}] {_run_id(record)} {record.name}: "
        )


class JsonFormatter(logging.Formatter):
    """One object on one line; an extra named like a field of ours gets a ``_``."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "ts": _timestamp(record),
            "level": record.levelname,
            "logger": record.name,
            "run_id": _run_id(record),
            "pid": _pid(record),
            "thread": record.threadName,
            "message": record.msg,
        }
        if record.exc_text:
            fields["exc"] = record.exc_text
        if record.stack_info:
            fields["stack"] = record.stack_info
        for name, value in extras_of(record).items():
            fields[f"{name}_" if name in _RESERVED else name] = value
        return _NOT_IN_JSON.sub(_json_escaped, json.dumps(fields, ensure_ascii=False))


def _timestamp(record: logging.LogRecord) -> str:
    seconds, milliseconds = divmod(int(record.created * 1000), 1000)
    date = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{date}.{milliseconds:03}Z"


def _pid(record: logging.LogRecord) -> int:
    return record.process or os.getpid()


def _run_id(record: logging.LogRecord) -> str:
    return str(record.__dict__.get("run_id", NO_RUN))


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _json_escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
