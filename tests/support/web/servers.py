"""Real servers in processes of their own, and a client that can vanish."""

import http.client
import importlib.util
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from support.processes import script_environment
from support.threads import LONG

HERE = Path(__file__).parent
#: The application that is served, unless a test names another.
APP = "support.web.app"
#: Seconds between two looks at what another process does.
LOOK = 0.01

#: The receive buffer of a deaf client, in bytes. The kernel doubles it.
SMALL = 2048

_PYTHON = [sys.executable, "-W", "error"]
_GUNICORN = [
    *(sys.executable, "-m", "gunicorn"),
    *("-c", str(HERE / "hooks.conf.py"), "--graceful-timeout", "15"),
    *("--log-level", "warning", "-b", "fd://{fd}"),
]


def _script(text):
    return [*_PYTHON, "-c", text]


#: How each of them is started, on a socket that listens already.
COMMANDS = {
    "werkzeug": _script(
        "import {app}; from werkzeug.serving import make_server; "
        "make_server('127.0.0.1', 0, {app}.application, threaded=True, fd={fd})"
        ".serve_forever()"
    ),
    "gunicorn-sync": [*_GUNICORN, "-k", "sync", "{app}:application"],
    "gunicorn-gthread": [
        *(*_GUNICORN, "-k", "gthread", "--threads", "{threads}", "{app}:application"),
    ],
    "waitress": _script(
        "import {app}, socket, waitress; "
        "waitress.serve({app}.application, sockets=[socket.socket(fileno={fd})], "
        "threads={threads})"
    ),
    # It reads ahead, and so closes the connection of a lost client by itself.
    "waitress-ahead": _script(
        "import {app}, socket, waitress; "
        "waitress.serve({app}.application, sockets=[socket.socket(fileno={fd})], "
        "threads={threads}, channel_request_lookahead=5)"
    ),
    "uwsgi": [
        *("uwsgi", "--http-socket", "fd://{fd}", "--master", "--enable-threads"),
        *("--threads", "{threads}", "--module", "{app}:application"),
        *("--need-app", "--disable-logging", "--die-on-term"),
    ],
}


def _is_there(name):
    if name == "uwsgi":
        return _uwsgi() is not None
    return importlib.util.find_spec(name.partition("-")[0]) is not None


def _uwsgi():
    beside = Path(sys.executable).with_name("uwsgi")
    return str(beside) if beside.exists() else shutil.which("uwsgi")


#: Those that are installed here.
SERVERS = [name for name in COMMANDS if _is_there(name) and "ahead" not in name]


class Server:
    """One server process.

    :param more: arguments for its command.
    :param app: the module of the application.
    :param context: of clients, if the server speaks TLS.
    :param settings: for the application, as environment variables.
    """

    def __init__(self, name, *more, threads=8, app=APP, context=None, **settings):
        self.name = name
        self._context = context
        self._more = more
        self.threads = threads
        self._settings = settings
        self._app = app
        self._stack = ExitStack()

    def __enter__(self):
        listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = listener.getsockname()[1]
        number = listener.fileno()
        command = [
            part.format(fd=number, threads=self.threads, app=self._app)
            for part in COMMANDS[self.name]
        ]
        if command[0] == "uwsgi":
            command[0] = _uwsgi()
        environment = script_environment()
        self._log = self._stack.enter_context(tempfile.TemporaryFile("a+"))
        with listener:
            self.process = subprocess.Popen(
                [*command, *self._more],
                env={**environment, **self._settings},
                pass_fds=[number],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
            )
        try:
            self.state()  # answers when it serves
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *raised):
        with self._stack:
            self.stop()
        assert self.process.returncode is not None

    def stop(self):
        """End it, if it still runs."""
        if self.process.poll() is None:
            self.process.terminate()
            # A worker of gunicorn that is just starting misses the signal, and is
            # killed when the graceful timeout is over.
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(LONG)
        if self.process.poll() is None:
            where = self.stacks()
            self.process.kill()
            self.process.wait(LONG)
            raise AssertionError(f"{self.name} does not end:\n{where}")

    def processes(self):
        """Return the ids of its processes, its first one first."""
        return descendants(self.process.pid)

    def stacks(self):
        """Return its log, with where each of its threads is."""
        for pid in self.processes()[1:] or self.processes():
            os.kill(pid, signal.SIGUSR2)
        threading.Event().wait(0.5)
        return self.log()

    def log(self):
        """Return what it has written."""
        self._log.seek(0)
        return self._log.read()

    def state(self):
        """Return what there is in the process of the application."""
        _, body = self.ask("GET", "/state")
        return json.loads(body)

    def ask(self, method, path, body=None, *, user="anna", provider="", **headers):
        """Make a request, and return its status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG)
        connection.sock = connect(self.port, self._context)
        try:
            sent = _headers(user, provider, body, headers)
            connection.request(method, path, _encoded(body), sent)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def start(self, talk, fake, **headers):
        """Begin a run, and return its view."""
        provider = fake.base_url
        body = {"prompt": talk}
        status, body = self.ask("POST", "/runs", body, provider=provider, **headers)
        assert status == 202, body
        return json.loads(body)

    def stream(self, talk, fake, **headers):
        """Begin a run, and return a client that follows it."""
        return Client(
            *(self.port, "POST", "/runs", {"prompt": talk}),
            context=self._context,
            provider=fake.base_url,
            Accept="text/event-stream",
            **headers,
        )

    def follow(self, id, last="", **headers):
        """Return a client that follows a run."""
        more = {"Last-Event-ID": str(last)} if last != "" else {}
        return Client(self.port, "GET", f"/runs/{id}/events", **more, **headers)

    def block(self, talk, fake):
        """Return a client that waits for the end of a run."""
        path = "/block?" + talk.replace(" ", "%20")
        return Client(self.port, "GET", path, provider=fake.base_url)

    def wait(self, is_so, what="that"):
        """Wait until the state of the application is as wished."""
        state = {}
        for _ in moments():
            state = self.state()
            if is_so(state):
                return state
        raise TimeoutError(f"never came to {what}: {state}\n{self.stacks()}")

    def wait_until_free(self):
        """Wait until no run is left."""
        return self.wait(lambda s: not s["live"] and not s["ours"], "rest")


def descendants(pid):
    """Return the child processes, as far as they can be found."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    found = []
    with suppress(OSError):  # it has ended
        found = [int(child) for child in path.read_text().split()]
    return [pid, *(more for child in found for more in descendants(child))]


def moments(limit=LONG):
    """Yield again and again, with little pauses, until it is too late."""
    end = time.monotonic() + limit
    pause = threading.Event()
    while time.monotonic() < end:
        yield
        pause.wait(LOOK)


def _headers(user, provider, body, more):
    sent = {"X-User": user, "X-Provider": provider, **more}
    if body is not None:
        sent.setdefault("Content-Type", "application/json")
    return sent


def _encoded(body):
    if body is None or isinstance(body, bytes):
        return body
    return json.dumps(body).encode()


def connect(port, context=None):
    """Return a connection to a server."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=LONG)
    if context is None:
        return sock
    return context.wrap_socket(sock, server_hostname="127.0.0.1")


class Client:
    """A client that follows a run, over a plain socket."""

    def __init__(
        self,
        port,
        method,
        path,
        body=None,
        *,
        context=None,
        user="anna",
        provider="",
        **headers,
    ):
        content = _encoded(body) or b""
        sent = _headers(user, provider, body, headers)
        lines = [f"{method} {path} HTTP/1.1", "Host: test"]
        lines += [f"{name}: {value}" for name, value in sent.items()]
        lines += [f"Content-Length: {len(content)}", "", ""]
        self.sock = self.connect(port, context)
        self.sock.sendall("\r\n".join(lines).encode() + content)
        self._response = None
        self._reader = None

    def connect(self, port, context):
        """Return the connection of this client."""
        return connect(port, context)

    @property
    def response(self):
        """The response, once its headers are there."""
        if self._response is None:
            self._response = http.client.HTTPResponse(self.sock)
            self._response.begin()
        return self._response

    def events(self):
        """Yield (id, name, data) of each event, as it comes, and comments as None."""
        fields = {}
        for line in self.response:
            line = line.decode().rstrip("\n")
            if line.startswith(":"):
                yield None
            elif line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "event" in fields:
                data = json.loads(fields["data"])
                number = fields.get("id")
                yield number and int(number), fields["event"], data
                fields = {}

    def until(self, name, **wanted):
        """Read until there is an event of that name, and return it all."""
        for event in self.events():
            if event is None or event[1] != name:
                continue
            if all(event[2].get(key) == value for key, value in wanted.items()):
                return event
        raise AssertionError(f"the stream ended without {name}")

    def read_on(self):
        """Read to the end, on a thread, and hang up then, as clients do."""

        def read():
            with suppress(OSError, http.client.HTTPException):
                self.response.read()
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)

        self._reader = threading.Thread(target=read)
        self._reader.start()

    def vanish(self):
        """Close the connection, as a browser does when its tab is closed."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)  # another thread may read
        if self._reader is not None:
            self._reader.join(LONG)
        if self._response is not None:
            self._response.close()
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.vanish()


class Deaf(Client):
    """A client that asks for a stream and never reads it."""

    def __init__(self, server, fake, talk="flood", **headers):
        super().__init__(
            *(server.port, "POST", "/runs", {"prompt": talk}),
            provider=fake.base_url,
            Accept="text/event-stream",
            **headers,
        )

    def connect(self, port, context):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
        sock.settimeout(LONG)
        sock.connect(("127.0.0.1", port))
        return sock

    def is_reset(self):
        """Wait until the server has ended the connection; read nothing."""
        poller = select.poll()
        poller.register(self.sock, 0)
        return bool(poller.poll(LONG * 1000))
