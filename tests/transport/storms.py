"""Calls that are cancelled at random moments, many at once."""

import heapq
import itertools
import queue
import threading
import time

from support.threads import LONG

from syncagent import Cancelled, CancelToken
from syncagent.exceptions import SyncAgentError

#: What a call may be about: things that end, and places to be stuck in.
ENDING = [
    *("ok", "chunked/e/e/end", "length/e/end", "close/e/cut", "gzip-chunked/e/end"),
    *("status/429/length/end", "cut", "chunked/e/cut"),
]
STUCK = [
    *("silent", "chunked/e/stall", "close/h/stall", "chunked/flow", "chunked/comments"),
    "status/503/length/h/stall",
]


class Canceller:
    """Cancel tokens at given times, from a thread of its own."""

    def __init__(self):
        self._inbox = queue.SimpleQueue()
        self._numbers = itertools.count()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._inbox.put(None)
        self._thread.join(LONG)

    def cancel_in(self, seconds, token):
        self._inbox.put((time.monotonic() + seconds, next(self._numbers), token))

    def _work(self):
        heap = []
        while True:
            wait = heap[0][0] - time.monotonic() if heap else LONG
            try:
                entry = self._inbox.get(timeout=max(0, wait))
                if entry is None:
                    return
                heapq.heappush(heap, entry)
            except queue.Empty:
                pass
            while heap and heap[0][0] <= time.monotonic():
                heapq.heappop(heap)[2].cancel("at random")


class Storm:
    """Count how calls end; each must, one way or another."""

    def __init__(self, server, transport):
        self._server = server
        self._transport = transport
        self.cancelled = 0
        self.others = 0

    def call(self, randomly, canceller, scheme=None, **options):
        """Make one call that, most likely, is cancelled midway."""
        seconds = randomly.choice([0, 0.0005, 0.002, 0.01]) * randomly.random()
        token, how, paths = CancelToken(), randomly.random(), ENDING + STUCK
        if how < 0.3:
            token = token.child(timeout=seconds)
        elif how < 0.9:
            canceller.cancel_in(seconds, token)
        else:
            paths = ENDING
        scheme = scheme or randomly.choice(["http", "https"])
        url = self._server.url(randomly.choice(paths), scheme)
        call = randomly.choice([self._transport.post, self._transport.stream])
        try:
            for _ in call(url, token=token, json={}, **options):
                pass
        except Cancelled:
            self.cancelled += 1
        except (SyncAgentError, TypeError):  # a Reply cannot be iterated over: it ended
            self.others += 1
        else:
            self.others += 1
