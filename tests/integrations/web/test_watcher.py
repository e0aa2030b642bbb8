"""One thread sees connections end, without reading or writing."""

import gc
import os
import socket
import ssl
import threading
import weakref

import pytest
from support.processes import in_child
from support.threads import LONG, together, until
from support.web.runs import watch_threads

from syncagent import CancelToken
from syncagent.integrations.web.disconnect import cancel_on_disconnect, disconnect_probe
from syncagent.integrations.web.watcher import Connection, watch
from syncagent.testing import FakeClock


def tcp():
    """Return both ends of a connection, the server's first."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname(), LONG)
        server, _ = listener.accept()
    return server, client


@pytest.fixture(params=[tcp, socket.socketpair], ids=["tcp", "unix"])
def pair(request):
    server, client = request.param()
    with server, client:
        yield server, client


class Told:
    """Is told, once, and notes on which thread."""

    def __init__(self):
        self.token = CancelToken()
        self.threads = []

    def __call__(self):
        self.threads.append(threading.current_thread().name)
        self.token.cancel()

    def wait(self):
        assert self.token.wait(LONG)


def watched(server, told=None):
    """Watch the client of a connection."""
    told = told or Told()
    return watch(Connection(server.fileno(), server), told), told


def test_a_client_that_closes(pair):
    """Issue 8: the end of a connection is seen by the thread that watches."""
    server, client = pair
    _, told = watched(server)
    client.close()
    told.wait()
    assert told.threads == ["syncagent-watch"]


def test_one_that_had_closed_before(pair):
    """A hang-up before the watch starts is reported, too."""
    server, client = pair
    client.close()
    watched(server)[1].wait()


def test_a_client_that_stays(pair):
    """A connection that is still there is not lost, whatever is sent over it."""
    server, client = pair
    watching, told = watched(server)
    client.sendall(b"GET /next HTTP/1.1\r\n")
    server.sendall(b"data: hello\n\n")
    other, gone = tcp()
    with other:
        gone.close()
        watched(other)[1].wait()  # it has looked by now
    assert not told.token.cancelled
    assert not watching.connection.is_lost()
    watching.close()


def test_pipelined_bytes_are_not_taken(pair):
    """Bytes that a client has sent ahead stay unread, and do not hide a hang-up."""
    server, client = pair
    _, told = watched(server)
    client.sendall(b"GET /next HTTP/1.1\r\n")
    client.close()
    told.wait()
    assert server.recv(100) == b"GET /next HTTP/1.1\r\n"


def test_a_client_that_is_half_closed(pair):
    """A client that sends no more counts as gone, as it does for proxies."""
    server, client = pair
    _, told = watched(server)
    client.shutdown(socket.SHUT_WR)
    told.wait()


def test_a_client_that_resets():
    """A reset is an end, too."""
    server, client = tcp()
    with server:
        _, told = watched(server)
        linger = b"\1\0\0\0\0\0\0\0"
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        client.close()
        told.wait()


def test_tls():
    """With TLS, the connection below is watched: nothing of TLS is touched."""
    server, client = tcp()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    wrapped = context.wrap_socket(
        server, server_side=True, do_handshake_on_connect=False
    )
    with wrapped:
        _, told = watched(wrapped)
        client.sendall(b"\x15\x03\x03\x00\x02\x01\x00")  # close_notify, as bytes
        client.close()
        told.wait()


def test_taking_it_back(pair):
    """After close() there is no callback; it may be closed twice."""
    server, client = pair
    watching, told = watched(server)
    watching.close()
    watching.close()
    client.close()
    other, gone = tcp()
    with other:
        gone.close()
        watched(other)[1].wait()
    assert not told.token.cancelled


def test_several_who_watch_one(pair):
    """A handler and its stream may both watch; one may leave before the other."""
    server, client = pair
    first, told_first = watched(server)
    second, told_second = watched(server)
    first.close()
    client.close()
    told_second.wait()
    assert not told_first.token.cancelled
    second.close()


def test_each_is_told_once(pair):
    """However often a connection ends, it is told once."""
    server, client = pair
    _, told = watched(server)
    client.shutdown(socket.SHUT_WR)
    told.wait()
    client.close()
    until(lambda: not watch_threads())
    assert len(told.threads) == 1


def test_one_thread_for_all():
    """Any number of connections need one thread, and none is left afterwards."""
    pairs = [tcp() for _ in range(60)]
    found = [watched(server) for server, _ in pairs]
    assert watch_threads() == 1
    for _, client in pairs:
        client.close()
    for _, told in found:
        told.wait()
    for server, _ in pairs:
        server.close()
    until(lambda: not watch_threads())


def test_a_server_that_has_closed(pair):
    """A connection that the server closed is lost, even if its descriptor is reused."""
    server, _ = pair
    watching, told = watched(server)
    number = server.fileno()
    server.close()
    assert watching.connection.is_lost()
    other, gone = tcp()
    with other, gone:
        if other.fileno() != number:
            other, unused = os.dup2(other.fileno(), number), other
            unused.close()
            other = socket.socket(fileno=other)
        with other:
            again, told_again = watched(other)
            watching.close()  # of the earlier one: the later is watched on
            assert not told_again.token.cancelled
            gone.close()
            told_again.wait()
            again.close()
    assert not told.token.cancelled


def test_the_server_asks_itself(pair):
    """A server that notices hang-ups by itself is polled."""
    server, _ = pair
    said, told = [], Told()
    watching = watch(Connection(server.fileno(), server, lambda: bool(said)), told)
    assert not told.token.wait(0.1)
    said.append("it is gone")
    told.wait()
    watching.close()


def test_what_raises_harms_nobody(pair, caplog):
    """A callback that raises does not keep the others from being called."""
    server, client = pair

    def fail():
        raise ValueError("no")

    watched(server, fail)
    _, told = watched(server)
    client.close()
    told.wait()
    assert "raised" in caplog.text


def test_many_come_and_go():
    """Threads may start and stop watching at the same time."""

    def come_and_go():
        for _ in range(40):
            server, client = tcp()
            with server, client:
                watching, told = watched(server)
                if threading.get_ident() % 2:
                    client.close()
                    told.wait()
                watching.close()

    together(*[come_and_go] * 6)


def test_a_client_that_goes_as_the_thread_is_about_to_leave():
    """A hang-up at the very last moment is reported, too."""
    for _ in range(5):
        with FakeClock() as clock:
            first, client = tcp()
            with first:
                client.close()
                watched(first)[1].wait()  # now it stays for a while
                server, client = tcp()
                with server:
                    _, told = watched(server)
                    clock.advance(LONG)
                    client.close()
                    assert told.token.signal.wait(LONG)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_after_a_fork(pair):
    """Promise 9: a child watches with its own thread; the parent's continues."""
    server, client = pair
    watching, told = watched(server)

    def child():
        watching.close()  # the parent's: nothing happens
        mine, gone = tcp()
        gone.close()
        _, told_too = watched(mine)
        told_too.wait()
        return threading.active_count()

    assert in_child(child) == 2
    assert not told.token.cancelled
    client.close()
    told.wait()


# -- for requests ------------------------------------------------------------------


@pytest.mark.parametrize("key", ["gunicorn.socket", "werkzeug.socket"])
def test_a_request_by_its_socket(pair, key):
    """The socket of a request is where its server has put it."""
    server, client = pair
    probe = disconnect_probe({key: server})
    assert probe.server == key.partition(".")[0]
    assert probe.can_look
    assert not probe.is_lost()
    client.close()
    until(probe.is_lost)


def test_a_request_by_its_input(pair):
    """Servers of the standard library show it behind the request's input."""
    server, client = pair
    with server.makefile("rb") as file:
        probe = disconnect_probe({"wsgi.input": file, "SERVER_SOFTWARE": "Some/1"})
        assert probe.server == "Some"
        client.close()
        until(probe.is_lost)


@pytest.mark.parametrize(
    "environ", [{}, {"gunicorn.socket": None}, {"wsgi.input": object()}]
)
def test_a_request_without_a_socket(environ):
    """Where no connection is shown nothing can be told, and nothing breaks."""
    probe = disconnect_probe(environ)
    assert not probe.can_look
    assert not probe.is_lost()
    assert probe.watch(lambda: None) is None
    with cancel_on_disconnect(environ) as token:
        assert not token.cancelled


def test_a_block_that_is_cancelled(pair):
    """Inside of the block a token and other targets are cancelled when one goes."""
    server, client = pair
    other = CancelToken()
    with cancel_on_disconnect({"gunicorn.socket": server}, other) as token:
        client.close()
        assert token.wait(LONG)
        assert other.wait(LONG)
    assert (token.origin, token.reason) == ("disconnect", "the client disconnected")


def test_a_block_that_has_ended(pair):
    """After the block nothing is watched, and nothing is kept."""
    server, client = pair
    with cancel_on_disconnect({"gunicorn.socket": server}) as token:
        pass
    client.close()
    until(lambda: not watch_threads())
    assert not token.cancelled
    gone = weakref.ref(token)
    del token
    gc.collect()
    assert gone() is None
