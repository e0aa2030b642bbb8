"""The target of a recording: a path, or an open file."""

from __future__ import annotations

import os
import stat
from typing import IO, Any

from ..exceptions import ConfigurationError

__all__ = [
    "Record",
    "check_record",
    "is_path",
    "takes_text",
]

#: A path, or a file that is open for writing, in bytes or text.
Record = str | os.PathLike[str] | IO[bytes] | IO[str]


def is_path(record: Any) -> bool:
    """Return whether it is a path, and not a file."""
    return isinstance(record, (str, os.PathLike))


def check_record(record: Any) -> None:
    """Check that a target can be written to, before the run starts.

    :raises ConfigurationError: it cannot; the message says why.
    """
    if record is None:
        return
    path = os.fspath(record) if is_path(record) else None
    if path is None and callable(getattr(record, "write", None)):
        try:
            takes_text(record)
        except (OSError, TypeError, ValueError) as error:
            raise ConfigurationError(
                f"record={record!r:.80} cannot be written to: {error}"
            ) from None
        return
    if not isinstance(path, str) or not path:
        raise ConfigurationError(
            "record must be a path such as 'run.jsonl', or an open file; got "
            f"{record!r:.80}"
        )
    folder = os.path.dirname(path) or os.curdir
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"record={path!r:.200}: {error}") from None
    if not os.path.isdir(folder):
        raise ConfigurationError(f"record={path!r:.200}: there is no folder {folder!r}")
    if mode is not None and not (stat.S_ISREG(mode) or stat.S_ISCHR(mode)):
        # Opening a pipe waits for its reader, and no cancel would end that wait.
        raise ConfigurationError(
            f"record={path!r:.200} is not a regular file; to write to a pipe, open it "
            "and pass the open file"
        )
    if not os.access(folder if mode is None else path, os.W_OK):
        raise ConfigurationError(f"record={path!r:.200}: permission denied")


def takes_text(file: Any) -> bool:
    """Return whether a file takes text, not bytes. It writes nothing to find out."""
    try:
        file.write(b"")
    except TypeError:
        file.write("")
        return True
    return False
