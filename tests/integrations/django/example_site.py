"""The example, as its first lines say that it is run."""

import http.cookiejar
import json
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from support.processes import script_environment
from support.threads import LONG
from support.web.servers import moments

MANAGE = Path(__file__).parents[3] / "examples" / "django_app" / "manage.py"
TOKEN = "the-token-of-the-example"


def manage(*arguments, store="sqlite:///not-used.db", **more):
    """Start a command of the example, and return its process."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(MANAGE), *arguments],
        env={**script_environment(), "OPERATOR_TOKEN": TOKEN, "STORE": store},
        stdin=subprocess.DEVNULL,
        **more,
    )


class Example:
    """``manage.py runserver``; a ``with`` block ends it."""

    def __enter__(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/agent/"
        self._folder = tempfile.TemporaryDirectory()
        self.process = manage(
            *("runserver", "--noreload", str(self.port)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            store=f"sqlite:///{self._folder.name}/runs.db",
        )
        assert any(self._is_there() for _ in moments())
        return self

    def _is_there(self):
        assert self.process.poll() is None
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0

    def __exit__(self, *raised):
        self.process.terminate()
        self.process.wait(LONG)
        self._folder.cleanup()


class Visitor:
    """A visitor with cookies, who has opened the page."""

    def __init__(self, url):
        self._url = url
        self._jar = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPCookieProcessor(self._jar)
        )
        with self._opener.open(url, timeout=LONG) as response:
            page = response.read().decode()
        self._token = page.partition('name="csrf-token" content="')[2].partition('"')[0]

    def ask(self, path, body=None, **headers):
        """Make a request as the page does; return its status, and what it says."""
        sent = {"Content-Type": "application/json", "X-CSRFToken": self._token}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {**sent, **headers})
        try:
            with self._opener.open(request, timeout=LONG) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, json.load(refused)
