"""Tokens in files, which the processes of one user share.

One file for each entry, named by a hash of its key. Guarantees:

- Only the user can read them: folder 0700, files 0600 from their first byte on.
- A reader sees an entry as it was or as it is, never a part: files are replaced, not
  changed. A process that is killed leaves at most a temporary file.
- ``locked()`` holds for all processes of this host, and the kernel ends it with the
  process that holds it.
"""

from __future__ import annotations

import fcntl
import io
import logging
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any, Final

import msgspec

from ...cancel import CancelToken
from ...exceptions import ConfigurationError
from .tokens import Turns

__all__ = ["FileTokens"]

_log = logging.getLogger("syncagent.mcp")

#: How often a process looks whether another one has finished, in seconds.
_LOOK: Final = 0.05


class _Entry(msgspec.Struct, frozen=True):
    key: str
    entry: str

    def __repr__(self) -> str:
        return f"<entry {self.key!a}>"


class FileTokens:
    """Keep tokens in files that only this user can read.

    :param folder: where; it is made if it does not exist.
    :raises ConfigurationError: *folder* is not a path.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        path: Any = os.fspath(folder) if isinstance(folder, os.PathLike) else folder
        if not isinstance(path, str) or not path or "\0" in path:
            raise ConfigurationError(f"folder must be a path; got {folder!r:.80}")
        self._folder = os.path.abspath(os.path.expanduser(path))
        self._turns = Turns()

    @classmethod
    def default(cls) -> FileTokens:
        """Return the store that ``syncagent mcp login`` uses."""
        base = os.environ.get("XDG_CONFIG_HOME") or os.path.join("~", ".config")
        return cls(os.path.join(base, "syncagent", "mcp-tokens"))

    def load(self, key: str) -> str | None:
        """Return the entry, or ``None``.

        :raises ConfigurationError: it cannot be read.
        """
        found = self._read(self._path(key))
        return None if found is None or found.key != key else found.entry

    def save(self, key: str, entry: str) -> None:
        """Keep *entry*, and return when it is on the disk.

        :raises ConfigurationError: it cannot be written.
        """
        path = self._path(key)
        temporary = f"{path}.{secrets.token_hex(8)}.tmp"
        try:
            self._make_folder()
            with open(temporary, "xb", opener=_open_privately) as file:
                file.write(msgspec.json.encode(_Entry(key, entry)))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError as error:
            raise self._unusable(error) from None
        finally:
            with suppress(OSError):
                os.unlink(temporary)

    def delete(self, key: str) -> None:
        """Forget the entry, if there is one.

        :raises ConfigurationError: it cannot be deleted.
        """
        try:
            with suppress(FileNotFoundError):
                os.unlink(self._path(key))
        except OSError as error:
            raise self._unusable(error) from None

    def keys(self) -> list[str]:
        """Return the keys of all entries that can be read."""
        names = []
        with suppress(OSError):
            names = [
                name for name in os.listdir(self._folder) if name.endswith(".json")
            ]
        found = [self._read(os.path.join(self._folder, name)) for name in names]
        return sorted(entry.key for entry in found if entry is not None)

    def servers(self) -> list[str]:
        """Return the URLs of the MCP servers with tokens."""
        return [key.partition(" ")[2] for key in self.keys() if key[:6] == "grant "]

    @contextmanager
    def locked(self, key: str, token: CancelToken) -> Iterator[None]:
        """Hold the lock of *key* among the processes of this host.

        Cancellation: the wait ends at once.
        """
        with self._turns.take(key, token):
            try:
                self._make_folder()
                path, mode = f"{self._path(key)}.lock", os.O_RDWR | os.O_CREAT
                # A signal handler may raise anywhere: made for the user only in one
                # step in C, and opened as an object, which closes itself.
                list(map(os.close, map(os.open, (path,), (mode,), (0o600,))))
                lock = io.FileIO(path, "r+")
            except OSError as error:
                raise self._unusable(error) from None
            try:
                while True:
                    try:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:
                        token.sleep(_LOOK)
                yield
            finally:
                # Not by closing alone: a forked child may hold the descriptor.
                with lock, suppress(OSError):
                    fcntl.flock(lock, fcntl.LOCK_UN)

    def _path(self, key: str) -> str:
        return os.path.join(self._folder, f"{sha256(key.encode()).hexdigest()}.json")

    def _make_folder(self) -> None:
        os.makedirs(self._folder, 0o700, exist_ok=True)
        if stat.S_IMODE(os.stat(self._folder).st_mode) & 0o077:
            _log.warning("others could read the folder of the MCP tokens; now only you")
            os.chmod(self._folder, 0o700)

    def _read(self, path: str) -> _Entry | None:
        try:
            with open(path, "rb") as file:
                text = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error) from None
        try:
            return msgspec.json.decode(text, type=_Entry)
        except (msgspec.DecodeError, UnicodeError):
            _log.warning("%s is damaged, and is not used; log in again", path)
            return None

    def _unusable(self, error: OSError) -> ConfigurationError:
        return ConfigurationError(
            f"{self._folder!a} cannot keep tokens: {error.strerror or error}; pass a "
            "folder that this process can write to"
        )

    def __repr__(self) -> str:
        return f"FileTokens({self._folder!r})"


def _open_privately(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
