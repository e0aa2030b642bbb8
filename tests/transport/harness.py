"""The server of :mod:`server` as tests see it."""

import itertools
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlencode

from support.threads import LONG

SCRIPT = Path(__file__).with_name("server.py")

_numbers = itertools.count()


class Server:
    """A server process, its ports, and what it says."""

    def __init__(self, *arguments):
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", str(SCRIPT), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ports = json.loads(self._process.stdout.readline())
        self._said = []
        self._heard = threading.Condition()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self):
        for line in self._process.stdout:
            with self._heard:
                self._said.append(json.loads(line))
                self._heard.notify_all()

    def wait_for(self, **what):
        """Block until the server has said *what*, and forget that it did."""
        with self._heard:
            assert self._heard.wait_for(lambda: what in self._said, LONG), what
            self._said.remove(what)

    def has_said(self, **what):
        """Tell whether the server has said *what*."""
        with self._heard:
            return what in self._said

    def go_on(self):
        """Let a request that waits go on."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def url(self, path, scheme="http", **query):
        """Return the address of a script, see :mod:`server`."""
        tail = f"?{urlencode(query)}" if query else ""
        return f"{scheme}://127.0.0.1:{self.ports[scheme]}/{path}{tail}"

    def proxies(self, scheme="http"):
        """Return the server as the proxy for everything."""
        proxy = f"{scheme}://127.0.0.1:{self.ports[scheme]}"
        return {"http": proxy, "https": proxy}

    def close(self):
        self._process.stdin.close()
        self._process.terminate()
        self._process.wait(LONG)
        self._listener.join(LONG)
        self._process.stdout.close()


def new_id():
    """Return an id for a script that no other test has."""
    return f"id{next(_numbers)}"


def advance_until(clock, is_done, step=1.0):
    """Let fake time pass, bit by bit, until something has happened."""
    pause, end = threading.Event(), time.monotonic() + LONG
    while not is_done():
        assert time.monotonic() < end, "it never happened"
        clock.advance(step)
        pause.wait(0.005)


def send_again(response, **options):
    """Do what digest authentication does: send the request once more."""
    if response.status_code == 401:
        response.close()
        return response.connection.send(response.request, **options)
    return response
