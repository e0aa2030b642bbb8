"""Keys that change, and a server that knows which of them are good."""

import threading

from syncagent.testing import FakeServer, Status, say
from syncagent.transport import Retries

SOON = Retries(limit=2, first_delay=0.001)
OLD, NEW = "old-0123456789abcdef", "new-fedcba9876543210"


class Rotating:
    """Return the keys of a list, one after the other; the last one for ever."""

    def __init__(self, *keys):
        self._keys = list(keys)
        self.asked = 0
        self.threads = set()

    def __call__(self):
        self.asked += 1
        self.threads.add(threading.current_thread().name)
        return self._keys[min(self.asked, len(self._keys)) - 1]


class Refreshable:
    """Return the same key until it is refreshed."""

    def __init__(self, *keys):
        self._keys = keys
        self.refreshed = 0
        self.asked = 0

    def __call__(self):
        self.asked += 1
        return self._keys[min(self.refreshed, len(self._keys) - 1)]

    def refresh(self):
        self.refreshed += 1


def key_of(seen):
    """Return the key of a request, without the scheme."""
    names = ("authorization", "x-api-key", "x-goog-api-key")
    return next(seen[name] for name in names if name in seen).removeprefix("Bearer ")


def checking(*good):
    """Return a server that takes these keys only."""

    def decide(seen):
        is_good = key_of(seen.headers) in good
        return "ok" if is_good else say("", acts=[Status(401, "expired")])

    return FakeServer(decide)


def keys_seen(server):
    """Return the keys of all requests, in order."""
    return [key_of(seen.headers) for seen in server.requests]


def text_of(model, **settings):
    """Return the text of a response."""
    return model.respond("hi", **settings).message.text
