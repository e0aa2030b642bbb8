"""Every place where a call can be stuck, and how to get it there."""

import threading
from dataclasses import dataclass

from harness import new_id
from support.threads import LONG

BOTH = ("http", "https")
TLS = ("https",)


@dataclass(frozen=True)
class Place:
    """One place to be stuck in.

    :param path: what the server is asked to do.
    :param phase: what the call says that it is doing then.
    :param port: which port of the server is asked, if not that of the scheme.
    :param proxy: which of its ports is the proxy, with which scheme.
    :param body: what is sent.
    :param is_warm: has the connection been used before?
    :param is_told: does the server say when the call is there, and when it is gone?
    """

    path: str = "silent"
    phase: str = "headers"
    schemes: tuple[str, ...] = BOTH
    port: str | None = None
    proxy: tuple[str, str] | None = None
    body: bytes = b"{}"
    is_warm: bool = False
    is_told: bool = True


PLACES = {
    "connect": Place(port="full", phase="connect", is_told=False),
    "tls handshake": Place(port="silent", phase="handshake", schemes=TLS),
    "send": Place("unread", "send", body=bytes(30_000_000)),
    "headers": Place(),
    "headers, kept alive": Place(is_warm=True),
    "before the first event": Place("chunked/stall", "first event"),
    "between events": Place("chunked/e/stall", "stream"),
    "inside an event": Place("chunked/e/h/stall", "stream"),
    "inside the first event": Place("chunked/h/stall", "first event"),
    "only comments": Place("chunked/comments", "first event"),
    "comments after an event": Place("chunked/e/comments", "stream"),
    "flow": Place("chunked/flow", "stream"),
    "length": Place("length/e/stall", "stream"),
    "close": Place("close/e/stall", "stream"),
    "close, flow": Place("close/flow", "stream"),
    "gzip": Place("gzip-chunked/e/stall", "stream"),
    "gzip, close": Place("gzip-close/e/h/stall", "stream"),
    "error body": Place("status/500/length/h/stall", "error body"),
    "proxy, connect": Place(phase="handshake", schemes=TLS, proxy=("http", "silent")),
    "proxy, forward": Place(schemes=("http",), proxy=("http", "http")),
    "proxy, tls": Place(
        phase="handshake", schemes=TLS, port="silent", proxy=("http", "http")
    ),
    "proxy, headers": Place(schemes=TLS, proxy=("http", "http")),
    "proxy, stream": Place(
        "chunked/e/stall", "stream", schemes=TLS, proxy=("http", "http")
    ),
    "proxy with tls": Place(
        "chunked/e/stall", "stream", schemes=TLS, proxy=("https", "https")
    ),
    "retry": Place("status/503/length/end", "retry", is_told=False),
}

CASES = [(name, scheme) for name, place in PLACES.items() for scheme in place.schemes]


class Call:
    """A call on its way to a place where it will be stuck.

    :param is_quiet: is the server to say nothing about its end?
    """

    def __init__(self, name, scheme, server, make_transport, is_quiet=False):
        self._place = place = PLACES[name]
        self._server = server
        self._is_there = threading.Event()
        self._phases = {place.phase}
        self._id = ("quiet-" if is_quiet else "") + new_id()
        self._url = server.url(place.path, scheme, id=self._id, **RETRY_AFTER)
        if place.port is not None:
            here, there = (str(server.ports[port]) for port in (scheme, place.port))
            self._url = self._url.replace(here, there)
        if "silent" in (place.port, place.proxy and place.proxy[1]):
            self._id = "silent"
        self._transport = make_transport(retries=3, proxies=self._proxies())
        self.events = []
        #: How often the request was sent, or was about to be.
        self.attempts = 0
        self.phase = place.phase
        #: The phase in which an attempt begins.
        self._first = "send" if place.is_warm else "connect"
        if place.is_warm:
            self._transport.post(server.url("ok", scheme), data=b"{}")

    def _proxies(self):
        if self._place.proxy is None:
            return None
        scheme, port = self._place.proxy
        address = f"{scheme}://127.0.0.1:{self._server.ports[port]}"
        return {"http": address, "https": address}

    def make(self, mode, token):
        """Make the call, and be stuck in it."""
        options = {"token": token, "data": self._place.body, "on_phase": self._note}
        if mode == "post":
            if self._phases & {"first event", "stream"}:
                self._phases = {"body"}
            self._transport.post(self._url, **options)
        elif mode in ("events", "read"):
            self._open(mode, options)
        else:
            for event in self._transport.stream(self._url, **options):
                self.events.append(event)

    def _open(self, mode, options):
        if self._phases & {"first event", "stream", "error body"} and mode == "read":
            self._phases = {"body"}
        elif "error body" in self._phases:  # its status is no error here
            self._phases = {"first event"}
        with self._transport.open("POST", self._url, **options) as response:
            if mode == "read":
                response.read()
            else:
                self.events.extend(response.events())

    def _note(self, phase):
        self.attempts += phase == self._first
        if phase in self._phases:
            self._is_there.set()

    def wait_until_there(self):
        """Block until the call is stuck, or about to be."""
        assert self._is_there.wait(LONG), f"not at {self._place.phase}"
        if self._place.is_told:
            self._server.wait_for(reached=self._id)

    def wait_until_gone(self):
        """Block until the server has seen the connection end."""
        if self._place.is_told:
            self._server.wait_for(gone=self._id)


def once_there(call, function):
    """Call *function* from another thread as soon as the call is stuck."""

    def wait():
        call.wait_until_there()
        function()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def check(call, origin, stop, server, make_transport, scheme):
    """The call was cancelled, its connection is gone, and others work."""
    assert stop.value.origin == origin
    call.wait_until_gone()
    assert make_transport().post(server.url("ok", scheme), json={}).json() == {}


RETRY_AFTER = {"Retry-After": "60"}
