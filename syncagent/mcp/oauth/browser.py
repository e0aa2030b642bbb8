"""Show the page of a login to a person, if there is one."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress

from ...cancel.once import start_thread

__all__ = ["OpenBrowser", "is_person_here", "open_in_terminal", "show"]

#: Shows a URL to a person: a function, ``None`` for the default, ``False`` for never.
OpenBrowser = Callable[[str], object] | bool | None


def is_person_here(open_browser: OpenBrowser) -> bool:
    """Return whether a login can ask a person."""
    if open_browser is not None:
        return open_browser is not False
    with suppress(AttributeError, OSError, ValueError):  # no stream, or a closed one
        return os.isatty(sys.stdin.fileno()) and os.isatty(sys.stderr.fileno())
    return False


def open_in_terminal(url: str) -> None:
    """Write *url* to standard error, and open it in the user's browser."""
    sys.stderr.write(f"To log in, open this page in a browser:\n\n  {url}\n\n")
    sys.stderr.flush()
    webbrowser.open(url)


def show(
    url: str, open_browser: OpenBrowser, on_failure: Callable[[str], None]
) -> None:
    """Show *url* on a thread of its own: a browser in a terminal blocks until its end.

    :param on_failure: called with the name of what the function raises.
    :raises RuntimeError: the system refuses another thread.
    """
    opener = open_browser if callable(open_browser) else open_in_terminal

    def work() -> None:
        try:
            opener(url)
        except Exception as error:
            # Without its text, which may have the URL, and with it the secret state.
            on_failure(type(error).__name__)

    start_thread(threading.Thread(target=work, name="mcp-login-browser", daemon=True))
