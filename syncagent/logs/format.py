"""The lines of a log file: text or JSON."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from typing import Any, Final

from .._context import NO_RUN
from .records import extras_of

__all__ = ["JsonFormatter", "TextFormatter"]

#: Starts the continuation lines of a text record; no record starts like this.
_CONTINUED: Final = "\n    | "
_RESERVED: Final = frozenset(
    ("ts", "level", "logger", "run_id", "pid", "thread", "message", "exc", "stack")
)
# Characters that could end a line or control a terminal; a tab is harmless.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL_BUT_NEWLINE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
# Characters that json leaves alone although they end a line for some readers or cannot
# be encoded as UTF-8.
_NOT_IN_JSON: Final = re.compile(r"[\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class TextFormatter(logging.Formatter):
    """A head, the message, and further lines indented behind a bar.

    A line break in a message cannot forge a record: the text after it never starts in
    the first column, and other control characters are escaped.
    """

    def format(self, record: logging.LogRecord) -> str:
        run_id = record.__dict__.get("run_id", NO_RUN)
        head = (
            f"{_timestamp(record)} {record.levelname:<8} {_pid(record)} "
            f"[{record.threadName}] {run_id} {record.name}: "
        )
        parts = (record.msg, record.exc_text, record.stack_info)
        body = "\n".join(part for part in parts if part).replace("\r\n", "\n")
        body = _CONTROL_BUT_NEWLINE.sub(_escaped, body).replace("\n", _CONTINUED)
        return _CONTROL.sub(_escaped, head) + body


class JsonFormatter(logging.Formatter):
    """One JSON object per line; an extra with a reserved name gets a ``_``."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "ts": _timestamp(record),
            "level": record.levelname,
            "logger": record.name,
            "run_id": str(record.__dict__.get("run_id", NO_RUN)),
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
        line = json.dumps(fields, ensure_ascii=False)
        return _NOT_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", line)


def _timestamp(record: logging.LogRecord) -> str:
    seconds, milliseconds = divmod(int(record.created * 1000), 1000)
    date = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{date}.{milliseconds:03}Z"


def _pid(record: logging.LogRecord) -> int:
    return record.process or os.getpid()


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
