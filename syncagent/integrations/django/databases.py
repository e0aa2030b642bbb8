"""Connections to databases that end with threads of ours.

Django has a connection for each thread and closes those of its own threads, at the end
of each request. Runs and tools work on other threads.
"""

from __future__ import annotations

from django.db import connections

__all__ = ["close_connections"]


def close_connections() -> None:
    """Close the connections of this thread.

    The app has this called after each tool on a thread of ours, and when such a thread
    ends, so that a run that waits for a model or for an approval holds none. Threads
    that Django has begun keep theirs.
    """
    connections.close_all()
