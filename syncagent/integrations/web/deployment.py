"""Ways to serve an application in which Stop cannot work, and warnings about them."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["SEVERAL_PROCESSES", "count_configured_workers", "warn_about_server"]

_log = logging.getLogger("syncagent.web")

#: The remedy is the same wherever it is noticed.
SEVERAL_PROCESSES: Final = (
    "each worker process has only the runs that it has started, so Stop, answers and "
    "reloads that reach another one find no run. Keep the runs in a store, such as "
    "sqlite:///runs.db, or use one worker with threads: see "
    '"Servers" in docs/web.rst'
)
_ONE_THREAD: Final = (
    "the server handles one request at a time, so Stop is not served while a stream is "
    "open, and only closing the stream ends the run. Use threads, as with gunicorn "
    '--worker-class gthread: see "Servers" in docs/web.rst'
)
_WORKERS: Final = re.compile(r"(?:^|\s)(?:-w|--workers)[\s=]*(\d+)")
#: The warnings of this process, each given once.
_given: Final[dict[str, None]] = {}


def count_configured_workers() -> int:
    """Return the number of workers that the environment sets for gunicorn or uvicorn.

    :return: 1 if it sets none. Command lines and files of a server are not visible.
    """
    concurrency = os.environ.get("WEB_CONCURRENCY", "").strip()
    arguments = _WORKERS.findall(os.environ.get("GUNICORN_CMD_ARGS", ""))
    numbers = [each for each in (concurrency, *arguments) if each.isdecimal()]
    # The last one counts, as for gunicorn itself.
    return int(numbers[-1]) if numbers else 1


def warn_about_server(
    environ: Mapping[str, Any] | None, *, has_store: bool = False
) -> None:
    """Warn once if the server that runs this process cannot serve Stop reliably.

    :param environ: the environ of a request; under ASGI it has no ``wsgi`` keys.
    :param has_store: every process has the same runs.
    """
    if environ is None:
        return
    if "wsgi.version" not in environ:
        if count_configured_workers() > 1 and not has_store:
            _warn(SEVERAL_PROCESSES)
        return
    # Test clients set these keys to anything; only real servers have a name.
    if not environ.get("SERVER_SOFTWARE") and "uwsgi.version" not in environ:
        return
    has_others = bool(environ.get("wsgi.multiprocess"))
    if has_others and not has_store:
        _warn(SEVERAL_PROCESSES)
    # With a store another process may serve Stop.
    if not environ.get("wsgi.multithread") and not (has_others and has_store):
        _warn(_ONE_THREAD)


def _warn(message: str) -> None:
    if message not in _given:
        _given[message] = None
        _log.warning("%s", message)
