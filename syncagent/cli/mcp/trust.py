"""The servers of files that the user has agreed to start.

A configuration file is code: to start its servers runs its commands, and its headers
can send secrets anywhere. So each server is shown and asked about before it is used for
the first time, and again when anything that decides what is run has changed.
"""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ...mcp.config import MCPServerConfig

__all__ = ["TrustFile", "exact_text", "server_text", "state_folder"]

_NAME: Final = "mcp-trust.json"


def state_folder() -> Path:
    """Return the folder for what the commands remember of this user."""
    base = os.environ.get("XDG_STATE_HOME") or ""
    if not os.path.isabs(base):  # the specification has it ignored then
        base = os.path.expanduser("~/.local/state")
    return Path(base) / "syncagent"


class TrustFile:
    """Remembers servers by the path of their file, their name, and a hash.

    A file that is damaged counts as empty: the user is asked again.

    :param path: by default in the user's state folder.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = state_folder() / _NAME if path is None else path

    def has(self, config: MCPServerConfig) -> bool:
        """Return True if the user has agreed to this very server."""
        known = self._read().get(os.path.realpath(config.file), {})
        return isinstance(known, dict) and known.get(config.name) == config.fingerprint

    def add(self, config: MCPServerConfig) -> None:
        """Remember a server; a folder that cannot be written means to ask again."""
        everything, file = self._read(), os.path.realpath(config.file)
        known = everything.get(file)
        everything[file] = {
            **(known if isinstance(known, dict) else {}),
            config.name: config.fingerprint,
        }
        with suppress(OSError):
            self._write(everything)

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self.path.read_bytes())["trusted"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, everything: dict[str, Any]) -> None:
        """Replace the file as a whole: another command never reads half of it."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps({"version": 1, "trusted": everything}, indent=1)
        descriptor, name = tempfile.mkstemp(dir=self.path.parent)  # for this user only
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(name, self.path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise


def server_text(config: MCPServerConfig) -> str:
    """Return everything that a server's entry would do, on lines of their own.

    Values of ``env`` and ``headers`` may be secrets: only their names are shown, and
    the variables that they take.
    """
    lines = []
    if config.command:
        lines.append(exact_text(shlex.join(config.command)))
        parts = {
            "in": exact_text(config.cwd or ""),
            "env": exact_text(", ".join(config.env)),
            "env file": exact_text(config.env_file or ""),
        }
    else:
        lines.append(exact_text(config.url))
        parts = {"headers": exact_text(", ".join(config.headers))}
    parts["gets from your environment"] = ", ".join(config.variables)
    lines += [f"{name}: {text}" for name, text in parts.items() if text]
    return "\n".join(f"    {line}" for line in lines)


def exact_text(text: str) -> str:
    """Return *text* whole, on one line, with escapes for what could hide a part."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode()
        for each in text
    )
