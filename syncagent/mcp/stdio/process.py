"""The process of a server."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import IO, Final

import msgspec

from ...exceptions import ConfigurationError
from ...tools.processes.child import ChildProcess
from ...tools.processes.groups import check_system
from ..connection import Era

__all__ = ["ServerProcess", "StdioSettings"]

#: The variables that a server inherits: keys of the agent must not reach it.
_INHERITED: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")


class StdioSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a server is started and spoken to.

    :raises ConfigurationError: a setting cannot work.
    """

    #: The program and its arguments; no shell is involved.
    command: tuple[str, ...]
    env: Mapping[str, str] = {}
    #: True if the server gets the whole environment of this process.
    inherit_env: bool = False
    cwd: str | os.PathLike[str] | None = None
    era: Era | None = None
    start_timeout: float = 60.0
    #: True to kill the server as soon as one of its requests is cancelled.
    kills_on_cancel: bool = False

    def __post_init__(self) -> None:
        check_system()
        parts: tuple[object, ...] = self.command
        if (
            not parts
            or not parts[0]
            or not all(isinstance(part, str) for part in parts)
        ):
            raise ConfigurationError(
                "the command of an MCP server must be a list of strings, the program "
                f"first, as in ['npx', '-y', 'a-server']; got {list(parts)!r:.80}"
            )
        for name in self.env:
            pair: tuple[object, ...] = (name, self.env[name])
            if not all(isinstance(part, str) for part in pair):
                raise ConfigurationError(
                    f"env must map names to strings; got {name!r:.40}"
                )

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the server."""
        if self.inherit_env:
            return {**os.environ, **self.env}
        kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        return {**kept, **self.env}


class ServerProcess(ChildProcess):
    """A server in a session of its own: Ctrl+C does not reach it."""

    def __init__(self, settings: StdioSettings) -> None:
        super().__init__()
        self._settings = settings

    def _open(self) -> None:
        self._spawn(
            self._settings.command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._settings.cwd,
            env=self._settings.environment,
        )
        for pipe in self._pipes():
            os.set_blocking(pipe.fileno(), False)

    @property
    def stdin(self) -> IO[bytes]:
        """Its standard input, which never blocks."""
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        """Its standard output, which never blocks."""
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def stderr(self) -> IO[bytes]:
        """Its error output, which never blocks."""
        assert self._process.stderr is not None
        return self._process.stderr

    @property
    def pidfd(self) -> int | None:
        """A descriptor that is readable once the process has ended."""
        return self._pidfds[0].fileno() if self._pidfds else None

    def _pipes(self) -> list[IO[bytes]]:
        names = ("stdin", "stdout", "stderr")
        pipes = [getattr(self._process, name, None) for name in names]
        return [pipe for pipe in pipes if pipe is not None]

    def _close(self) -> None:
        super()._close()
        for pipe in self._pipes():
            pipe.close()
