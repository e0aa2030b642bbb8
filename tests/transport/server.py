"""A server that does exactly what the path of a request says, in a process of its own.

::

    python server.py [CERTIFICATE KEY AUTHORITY]

It prints its ports as a line of JSON, then a line for everything worth knowing, and
ends when its standard input does. A path is a list of steps:

========================  ============================================================
``/ok``                   an empty JSON object, kept alive
``/echo``                 what is known about the request, as JSON
``/silent``               nothing at all
``/unread``               the body of the request is not taken
``/status/503/...``       another status; then steps of the body as below
``/chunked/e/e/stall``    a body of events: chunked, length, or close; ``gzip-`` before
``/many/20000/80``        20000 events as a model sends them, 80 to a chunk
``/cut``                  no answer, but the end of the connection
``/turns/2/A/then/B``     A for the first two with this ``id``, then B
========================  ============================================================

Steps of a body: ``e`` an event, ``c`` a comment, ``h`` half an event, ``m`` an event
and a half in a chunk that has more to come, ``done`` the event ``[DONE]``, ``json`` an
error, ``echo`` the headers of the request, ``big`` a megabyte, ``end`` the end it
should have, ``cut`` another, ``stall`` nothing any more, ``flow`` events for ever,
``comments`` comments for ever, ``wait`` for the next line on standard input. The query
gives headers to add, and ``id``, under which it says ``reached`` when it stalls and
``gone`` when the client has hung up, unless the id begins with ``quiet``.
"""

import collections
import functools
import itertools
import json
import select
import socket
import ssl
import sys
import threading
import zlib
from urllib.parse import parse_qsl, urlsplit

#: Nothing in here waits longer than this, in seconds.
LIMIT = 60.0
COMMENT_EVERY = 0.005
#: What the relay looks for.
CANARY = b"canary-0123456789"

_speaking = threading.Lock()
_lines = threading.Semaphore(0)
_numbers = itertools.count()
_turns = collections.defaultdict(itertools.count)


def say(**what):
    """Tell the test something."""
    with _speaking:
        print(json.dumps(what), flush=True)


def say_gone(identity):
    if not identity.startswith("quiet"):
        say(gone=identity)


class Visitor:
    """One connection, request after request."""

    def __init__(self, sock):
        self.number = next(_numbers)
        self.sock = sock
        self.file = sock.makefile("rb")

    def serve(self):
        while self.read_head():
            if not self.answer():
                return

    def read_head(self):
        if self.file.peek(1)[:1] == b"\x16":  # TLS, on a port that speaks none
            return False
        request = self.file.readline(65536).decode("latin-1").split()
        if len(request) != 3:
            return False
        self.method, self.target, _ = request
        self.headers = {}
        while (line := self.file.readline(65536).decode("latin-1").strip()) != "":
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()
        return True

    def read_body(self):
        return self.file.read(int(self.headers.get("content-length", 0)))

    def answer(self):
        """Answer a request; return whether there may be another."""
        if self.method == "CONNECT":
            return self.tunnel()
        parts = urlsplit(self.target)
        self.steps = parts.path.strip("/").split("/")
        self.extra = dict(parse_qsl(parts.query))
        self.id = self.extra.pop("id", "")
        if self.steps[0] == "turns":
            self.take_turn()
        kind = self.steps.pop(0)
        if kind == "unread":
            return self.stall()
        self.body = self.read_body()
        if kind == "silent":
            return self.stall()
        if kind == "cut":
            return False
        if kind == "many":
            self.send_head("200", {"Transfer-Encoding": "chunked"})
            self.sock.sendall(many(*map(int, self.steps)))
            return True
        if kind in ("ok", "echo"):
            return self.answer_at_once({} if kind == "ok" else self.known())
        status = self.steps.pop(0) if kind == "status" else "200"
        framing = self.steps.pop(0) if kind == "status" else kind
        return self.send_body(status, framing)

    def take_turn(self):
        """Choose between two scripts by how often this id has been here."""
        _, turns, *steps = self.steps
        middle = steps.index("then")
        is_early = next(_turns[self.id]) < int(turns)
        self.steps = steps[:middle] if is_early else steps[middle + 1 :]
        if not is_early:
            self.extra = {}

    def known(self):
        certificate = getattr(self.sock, "getpeercert", dict)() or {}
        return {
            "target": self.target,
            "headers": self.headers,
            "size": len(self.body),
            "body": self.body.decode("latin-1")[:100],
            "connection": self.number,
            "certificate": [name for _, name in certificate.get("subjectAltName", ())],
        }

    def answer_at_once(self, said):
        content = json.dumps(said).encode()
        self.send_head("200", {"Content-Length": str(len(content))}, "application/json")
        self.sock.sendall(content)
        return True

    def send_head(self, status, headers, kind="text/event-stream"):
        headers = {"Content-Type": kind, **headers, **self.extra}
        lines = [f"HTTP/1.1 {status} Said", *(f"{n}: {v}" for n, v in headers.items())]
        self.sock.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))

    # -- bodies --------------------------------------------------------------------

    def send_body(self, status, framing):
        self.is_zipped = framing.startswith("gzip-")
        self.packer = zlib.compressobj(wbits=31)
        framing = framing.removeprefix("gzip-")
        self.is_chunked = framing == "chunked"
        headers = {"Content-Encoding": "gzip"} if self.is_zipped else {}
        if framing == "chunked":
            headers["Transfer-Encoding"] = "chunked"
        elif framing == "close":
            headers["Connection"] = "close"
        else:
            headers["Content-Length"] = str(self.length())
        self.send_head(status, headers)
        return all(self.take(n, step) for n, step in enumerate(self.steps)) and (
            framing != "close"
        )

    def length(self):
        """Return the length of a body that is sent whole; of any other, a lot."""
        if self.steps[-1] != "end" or self.is_zipped:
            return 1_000_000_000
        return sum(
            len(self.echoed() if step == "echo" else content(n, step))
            for n, step in enumerate(self.steps)
        )

    def take(self, number, step):
        """Do one step; return whether there may be another."""
        special = {
            "stall": self.stall,
            "m": self.begin_chunk,
            "cut": lambda: False,
            "wait": lambda: _lines.acquire(timeout=LIMIT),
            "flow": lambda: self.flow(content(1, "e") * 100),
            "comments": lambda: self.flow(content(1, "c"), COMMENT_EVERY),
            "end": self.end,
        }
        if step in special:
            return special[step]()
        self.send(self.echoed() if step == "echo" else content(number, step))
        return True

    def echoed(self):
        return json.dumps(self.headers).encode()

    def send(self, data):
        if self.is_zipped:
            data = self.packer.compress(data) + self.packer.flush(zlib.Z_SYNC_FLUSH)
        self.send_framed(data)

    def send_framed(self, data):
        if self.is_chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        self.sock.sendall(data)

    def begin_chunk(self):
        self.sock.sendall(b"1000\r\n" + content(1, "e") + content(1, "h"))
        return True

    def end(self):
        if self.is_zipped:
            self.send_framed(self.packer.flush())
        if self.is_chunked:
            self.sock.sendall(b"0\r\n\r\n")
        return True

    def stall(self):
        """Do nothing until the client has hung up."""
        say(reached=self.id)
        self.is_gone(LIMIT)
        return False

    def flow(self, data, pause=0.0):
        """Send the same thing over and over until the client has hung up."""
        say(reached=self.id)
        try:
            while not self.is_gone(pause):
                self.send(data)
        except OSError:
            say_gone(self.id)
        return False

    def is_gone(self, seconds):
        """Tell within *seconds* whether the client has hung up."""
        poller = select.poll()
        poller.register(self.sock.fileno(), select.POLLRDHUP)
        is_gone = bool(poller.poll(seconds * 1000))
        if is_gone:
            say_gone(self.id)
        return is_gone

    # -- as a proxy ----------------------------------------------------------------

    def tunnel(self):
        """Connect to where the client wants, and pass everything on."""
        host, _, port = self.target.rpartition(":")
        with socket.create_connection((host, int(port)), LIMIT) as far:
            self.sock.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            relay(self.sock, far)
        return False


def content(number, step):
    return {
        "e": b'data: {"number": %d}\n\n' % number,
        "c": b": still here\n\n",
        "h": b"data: ha",
        "done": b"data: [DONE]\n\n",
        "json": b'{"error": {"message": "no"}}',
        "big": b"data: " + b"x" * 1_000_000,
    }.get(step, b"")


@functools.cache
def many(number, per_chunk):
    """Return the chunked body of a stream of tokens."""
    token = {"index": 0, "delta": {"content": " word"}, "finish_reason": None}
    event = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [token]}
    data = b"data: %b\n\n" % json.dumps(event).encode() * per_chunk
    chunk = b"%x\r\n%b\r\n" % (len(data), data)
    return chunk * (number // per_chunk) + b"0\r\n\r\n"


def relay(one, other):
    """Pass on what either side says, until one has said all.

    On a single thread: TLS cannot be read and written at the same time.
    """
    targets = {one: other, other: one}
    while True:
        ready = [sock for sock in targets if getattr(sock, "pending", int)()]
        for source in ready or select.select(list(targets), [], [], LIMIT)[0]:
            data = source.recv(65536)
            if not data:
                return
            targets[source].sendall(data)


def quietly(function):
    try:
        function()
    except (OSError, ValueError):  # it has hung up in the middle of something
        pass


# -- listening -------------------------------------------------------------------------


def listen(visit):
    """Accept connections on a new port, each in a thread; return the port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)

    def accept():
        while True:
            sock, _ = listener.accept()
            sock.settimeout(LIMIT)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=visit, args=(sock,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def visit_plain(sock):
    with sock:
        quietly(lambda: Visitor(sock).serve())


def visit_tls(context):
    def visit(sock):
        with sock:
            try:
                sock = context.wrap_socket(sock, server_side=True)
            except OSError:
                return
            visit_plain(sock)

    return visit


def visit_silent(sock):
    """Say nothing, whatever the client says."""
    with sock:
        say(reached="silent")
        poller = select.poll()
        poller.register(sock.fileno(), select.POLLRDHUP)
        poller.poll(LIMIT * 1000)
        say(gone="silent")


def visit_relay(port):
    """Pass everything on to *port*, and look for what must not be seen in clear."""

    def visit(sock):
        with sock, socket.create_connection(("127.0.0.1", port), LIMIT) as far:
            relay(Watched(sock), far)

    return visit


class Watched:
    """A socket whose incoming bytes are searched for a canary."""

    def __init__(self, sock):
        self._sock = sock
        self._tail = b""

    def recv(self, size):
        data = self._sock.recv(size)
        if CANARY in self._tail + data:
            say(leaked=True)
        self._tail = (self._tail + data)[-len(CANARY) :]
        return data

    def __getattr__(self, name):
        return getattr(self._sock, name)


_kept = []


def full_port():
    """Return a port whose backlog is full: connecting to it takes for ever."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    _kept.append(listener)
    for _ in range(5):
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(listener.getsockname())
        _kept.append(sock)
    return listener.getsockname()[1]


def main(certificate=None, key=None, authority=None):
    ports = {
        "http": listen(visit_plain),
        "silent": listen(visit_silent),
        "full": full_port(),
    }
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        ports["https"] = listen(visit_tls(context))
        strict = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        strict.load_cert_chain(certificate, key)
        strict.load_verify_locations(authority)
        strict.verify_mode = ssl.CERT_REQUIRED
        ports["strict"] = listen(visit_tls(strict))
        ports["relay"] = listen(visit_relay(ports["https"]))
    say(**ports)
    for _ in sys.stdin:
        _lines.release()


if __name__ == "__main__":
    main(*sys.argv[1:])
