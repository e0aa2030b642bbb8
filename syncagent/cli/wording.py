"""Errors of the library in the words of the command line."""

from __future__ import annotations

import re
from typing import Final

from .plain_text import on_one_line

__all__ = ["error_line"]

#: Advice for programs, and what to say in its place to a user of the commands.
_WORDS: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r", or pass api_key=.*", ""),
        (r": pass api_key=.*", ""),
        (r", or pass base_url=", ", or pass --base-url"),
        (r"pass allow_insecure=True", "pass --allow-insecure"),
        (r" lists all, and register_endpoint\(\) adds one", " lists all"),
        (r"pass others with env=", 'name others under "env" in the file'),
    )
)
_REFUSED: Final = re.compile(r"//(?:127\.0\.0\.1|localhost|\[::1\])(:\d+)?/.*refused")
#: How to start a server, by its usual port.
_SERVERS: Final = {
    ":11434": "start it with: ollama serve",
    ":1234": "start it in LM Studio",
    ":8080": "start it with: llama-server -m MODEL.gguf",
}


def error_line(message: str) -> str:
    """Return the message of an error on one line, with options in place of parameters.

    A server on this machine that refuses a connection mostly is not running.
    """
    line = on_one_line(message)
    for pattern, replacement in _WORDS:
        line = pattern.sub(replacement, line)
    refused = _REFUSED.search(line)
    if refused is None:
        return line
    how = _SERVERS.get(refused[1] or "", "start it, or name another with --base-url")
    return f"{line}; no server runs there: {how}"
