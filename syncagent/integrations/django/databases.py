"""Close the database connections of syncagent's threads.

Django opens a connection per thread, and closes those of its own threads at the end of
each request. Runs and tools work on other threads.
"""

from __future__ import annotations

from django.db import connections

__all__ = ["close_connections"]


def close_connections() -> None:
    """Close the connections of this thread.

    The app calls this after each tool call on one of syncagent's threads, and when such
    a thread ends. So a run that waits for a model or an approval holds no connection.
    Threads that Django has started keep theirs.
    """
    connections.close_all()
