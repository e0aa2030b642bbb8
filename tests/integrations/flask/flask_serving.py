"""Sites that are served in processes of their own, and visitors of them."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import requests
from flask_site import LONG
from support.threads import until
from support.web.servers import descendants

EXAMPLE = Path(__file__).parents[3] / "examples" / "flask_app"
#: Like the example, but without a store.
IN_PROCESS = Path(__file__).parent / "in_process"
#: Like the example, with a short lease.
STORED = Path(__file__).parent / "stored"
#: Its model calls tools with the arguments in the prompt.
TELLING = Path(__file__).parent / "telling"
#: Its visitors log in, and its model says what it is told.
ACCOUNTS = Path(__file__).parent / "accounts"
_WERKZEUG = (
    "import app; from werkzeug.serving import make_server; "
    "make_server('127.0.0.1', 0, app.app, threaded=True, fd={fd}).serve_forever()"
)
_GUNICORN = [
    *(sys.executable, "-m", "gunicorn", "--log-level", "warning"),
    *("-b", "fd://{fd}", "app:app"),
]
_HOOKS = str(Path(__file__).parents[2] / "support" / "web" / "hooks.conf.py")
_THREADS = ["-k", "gthread", "--threads", "16"]
COMMANDS = {
    "werkzeug": [sys.executable, "-c", _WERKZEUG],
    "gunicorn": [*_GUNICORN, *_THREADS],
    "gunicorn -w 2": [*_GUNICORN, *_THREADS, "-w", "2"],
    "gunicorn -w 3": [*_GUNICORN, *_THREADS, "-w", "3", "-c", _HOOKS],
    # Its default: one worker without threads.
    "gunicorn sync": _GUNICORN,
    "gunicorn sync -w 2": [*_GUNICORN, "-w", "2"],
}


class Served:
    """An application, on a socket that listens already.

    :param folder: that of the application; by default one without a store.
    :param settings: of the application, such as ``grace``.
    """

    def __init__(self, name="werkzeug", folder=IN_PROCESS, **settings):
        self._name = name
        self._folder = folder
        self._settings = {
            f"FLASK_SYNCAGENT_{key.upper()}": json.dumps(value)
            for key, value in settings.items()
        }
        # The same in all workers, which share their visitors.
        self._settings["FLASK_SECRET_KEY"] = "a-secret-of-the-tests"
        self._port = 0

    def __enter__(self):
        self._log = tempfile.TemporaryFile("w+")
        # The same after a restart.
        with socket.create_server(("127.0.0.1", self._port), backlog=64) as listener:
            self._port = listener.getsockname()[1]
            self.url = f"http://127.0.0.1:{self._port}"
            number = listener.fileno()
            self._process = subprocess.Popen(
                [part.format(fd=number) for part in COMMANDS[self._name]],
                env={**os.environ, **self._settings},
                cwd=self._folder,
                pass_fds=[number],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
            )
        return self

    def __exit__(self, *raised):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(LONG / 4)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(LONG)
        self._log.close()

    @property
    def workers(self):
        """The process ids of the workers of gunicorn."""
        return descendants(self._process.pid)[1:]

    def kill(self):
        """End it without a word."""
        self._process.kill()
        self._process.wait(LONG)

    def visitor(self):
        """Return a new visitor with a cookie."""
        return Guest(self.url)


class Guest:
    """A visitor of a server, with a cookie."""

    def __init__(self, url):
        self.url = f"{url}/agent"
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers["Connection"] = "close"
        self._followers = []
        self._session.get(self.url, timeout=LONG).raise_for_status()

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        for follower in self._followers:
            follower.vanish()
        self._session.close()

    def start(self, prompt):
        """Begin a run, and return the stream of its events."""
        return self.stream("POST", "runs", json={"prompt": prompt})

    def stream(self, method, path, last=0, **more):
        """Return the stream of a run's events."""
        headers = {"Accept": "text/event-stream"}
        if last:
            headers["Last-Event-ID"] = str(last)
        response = self._session.request(
            *(method, f"{self.url}/{path}"),
            headers=headers,
            stream=True,
            timeout=LONG,
            **more,
        )
        self._followers.append(Follower(response))
        return self._followers[-1]

    def ask(self, method, path, **more):
        """Make a request, and return its status and what it says."""
        response = self._session.request(
            method, f"{self.url}/{path}", timeout=LONG, **more
        )
        return response.status_code, response.json()

    def wait(self, id, is_so=lambda view: not view["is_live"]):
        """Wait until a run is as wished, and return its view."""

        def look():
            _, view = self.ask("GET", f"runs/{id}")
            return view if is_so(view) else None

        return until(look)


class Follower:
    """Reads a stream."""

    def __init__(self, response):
        response.raise_for_status()
        self._response = response
        self.id = response.headers["X-Run-Id"]
        #: The number of the last event, and all text so far.
        self.last = 0
        self.text = ""
        # One, as requests closes a stream whose reader is dropped.
        self._events = self._read()

    def _read(self):
        fields = {}
        for line in self._response.iter_lines(chunk_size=1, decode_unicode=True):
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
                continue
            if "event" in fields:
                data = json.loads(fields["data"])
                self.last = int(fields.get("id", self.last))
                if fields["event"] == "text_delta":
                    self.text += data["text"]
                yield fields["event"], data
            fields = {}

    def until(self, name, times=1):
        """Read until there is an event of that name, so many times; return it."""
        for event, data in self._events:
            times -= event == name
            if times == 0:
                return data
        raise AssertionError(f"the stream ended without {name}")

    def vanish(self):
        """Close the connection, as a browser does when its tab is closed."""
        self._events.close()
        self._response.close()
