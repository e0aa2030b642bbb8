"""What is relied on of other packages without being promised by them.

One test for each name, on the lowest versions (``tox -e min``) and on the newest. When
one of them fails, read what has changed there before anything else.
"""

import http.client
import inspect
import queue
import socket
import ssl
import types

import pytest
import requests
import urllib3
from requests.adapters import HTTPAdapter
from sseclient import SSEClient
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util import ssl_
from urllib3.util.connection import allowed_gai_family


class Recorded(HTTPConnection):
    """A connection that notes when it is asked for a socket."""

    made = 0

    def _new_conn(self):
        type(self).made += 1
        return super()._new_conn()


# -- urllib3 ---------------------------------------------------------------------------


def test_new_conn_makes_the_socket(server):
    """HTTPConnection._new_conn() is how connect() gets one, and the only way."""
    connection = Recorded("127.0.0.1", server.ports["http"])
    connection.connect()
    assert Recorded.made == 1
    assert isinstance(connection.sock, socket.socket)
    connection.close()
    assert "self._new_conn()" in inspect.getsource(HTTPSConnection.connect)


def test_dns_host_is_the_name_to_look_up():
    """HTTPConnection._dns_host has the trailing dot, which host has not."""
    connection = HTTPConnection("example.org.", 80)
    assert (connection._dns_host, connection.host) == ("example.org.", "example.org")
    assert connection.source_address is None
    assert connection.default_socket_options == connection.socket_options


class Watched(HTTPConnectionPool):
    """A pool that notes what comes back to it."""

    def __init__(self, *args, **kwargs):
        self.back = []
        super().__init__(*args, **kwargs)

    def _put_conn(self, conn):
        self.back.append(conn)
        super()._put_conn(conn)


@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        ("ok", [HTTPConnection]),
        ("chunked/e/end", [HTTPConnection]),
        ("close/e/cut", [HTTPConnection]),
        ("cut", [type(None)]),
        ("chunked/e/cut", [HTTPConnection]),
    ],
)
def test_put_conn_is_the_way_back(server, path, kinds):
    """HTTPConnectionPool._put_conn() gets every connection that may be used again."""
    with Watched("127.0.0.1", server.ports["http"], retries=False) as pool:
        try:
            response = pool.urlopen("POST", f"/{path}", preload_content=False)
            while response.read1(65536):
                pass
        except urllib3.exceptions.HTTPError:
            pass
        assert [type(connection) for connection in pool.back] == kinds


def test_release_conn_after_close_goes_that_way_too(server):
    """What requests does to close a response gives the connection back, closed."""
    with Watched("127.0.0.1", server.ports["http"]) as pool:
        response = pool.urlopen("POST", "/chunked/e/stall", preload_content=False)
        response.close()
        response.release_conn()
        [connection] = pool.back
        assert connection.is_closed


def test_pools_take_a_queue_of_ours():
    """QueueCls is called with the size, filled with None, and raises Empty and Full."""

    class Mine(queue.LifoQueue):
        pass

    class Pool(HTTPConnectionPool):
        QueueCls = Mine

    with Pool("127.0.0.1", maxsize=3) as pool:
        assert isinstance(pool.pool, Mine)
        assert pool.pool.maxsize == 3
        assert [pool.pool.get(block=False) for _ in range(3)] == [None] * 3
        assert pool._get_conn() is not None


@pytest.mark.parametrize("pool", [HTTPConnectionPool, HTTPSConnectionPool])
def test_pools_take_connections_of_ours(pool):
    """ConnectionCls is what a pool makes."""
    mine = type("Mine", (pool.ConnectionCls,), {})
    with type("Pool", (pool,), {"ConnectionCls": mine})("127.0.0.1") as ours:
        assert type(ours._get_conn()) is mine


def test_managers_take_pools_of_ours():
    """pool_classes_by_scheme of a manager is asked for every new pool."""
    for manager in (urllib3.PoolManager(), urllib3.ProxyManager("http://127.0.0.1:1")):
        manager.pool_classes_by_scheme = {"http": Watched}
        assert isinstance(
            manager.connection_from_host("a.example", 80, "http"), Watched
        )
        assert len(manager.pools) == 1
        assert manager.pools.get(next(iter(manager.pools.keys()))) is not None
        manager.clear()


def test_what_a_response_says_about_its_body(server):
    """chunked, length_remaining, isclosed() and read1() are as we read them."""
    with HTTPConnectionPool("127.0.0.1", server.ports["http"]) as pool:
        framed, length, closed = (
            pool.urlopen("POST", f"/{path}", preload_content=False)
            for path in ("chunked/e/end", "length/e/end", "close/e/cut")
        )
        assert framed.chunked
        assert length.length_remaining == len(length.read1(65536))
        assert (closed.chunked, closed.length_remaining) == (False, None)
        for response in (framed, length, closed):
            while response.read1(65536, decode_content=True):
                pass
            assert response.isclosed()


def test_tls_settings_of_a_connection(certificates):
    """What use_shared_context() reads and clears exists, and no more is loaded."""
    connection = HTTPSConnection("127.0.0.1", ca_certs=certificates.authority)
    for name in (
        *("ca_certs", "ca_cert_dir", "ca_cert_data", "cert_file", "key_file"),
        *("key_password", "cert_reqs", "ssl_version", "ssl_context", "proxy"),
        *("ssl_minimum_version", "ssl_maximum_version"),
    ):
        assert hasattr(connection, name), name
    assert ssl_.resolve_cert_reqs("CERT_REQUIRED") == ssl.CERT_REQUIRED
    assert isinstance(ssl_.resolve_ssl_version(None), int)


def test_what_is_done_to_a_context_for_every_connection(server):
    """ssl_wrap_socket() sets ALPN through the method, and loads nothing unasked."""
    done = []

    class Context(ssl.SSLContext):
        def set_alpn_protocols(self, protocols):
            done.append(("alpn", protocols))

        def load_verify_locations(self, *args, **kwargs):
            done.append("authorities")

        def load_cert_chain(self, *args, **kwargs):
            done.append("certificate")

    context = Context(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", server.ports["https"])) as sock:
        wrapped = ssl_.ssl_wrap_socket(
            sock, ssl_context=context, server_hostname="127.0.0.1"
        )
        wrapped.close()
    assert done == [("alpn", ssl_.ALPN_PROTOCOLS)]


def test_families_that_are_looked_up():
    """allowed_gai_family() says which addresses to ask for."""
    assert allowed_gai_family() in (socket.AF_INET, socket.AF_UNSPEC)


# -- requests --------------------------------------------------------------------------


def test_an_adapter_remembers_its_sizes():
    """_pool_connections and _pool_maxsize are kept for making pools anew."""
    adapter = HTTPAdapter(pool_connections=3, pool_maxsize=4)
    assert (adapter._pool_connections, adapter._pool_maxsize) == (3, 4)
    assert adapter.max_retries.total == 0
    assert adapter.proxy_manager == {}


def test_steps_of_a_prepared_request():
    """It can be copied, and given other headers, another body and credentials."""
    request = requests.Request("POST", "https://a.example/").prepare().copy()
    request.prepare_headers({**request.headers, "X-A": "b"})
    request.prepare_body(b"body", None)
    request.prepare_auth(("me", "secret"), request.url)
    assert request.headers["Content-Length"] == "4"
    assert request.headers["X-A"] == "b"
    assert request.headers["Authorization"].startswith("Basic")


def test_a_response_tells_whether_its_body_was_read(server):
    """requests.Response._content_consumed is true once content has been asked for."""
    response = requests.post(server.url("chunked/e/end"), stream=True)
    assert response._content_consumed is False
    assert response.content
    assert response._content_consumed is True


def test_copies_of_a_prepared_request_share_their_hooks():
    """PreparedRequest.copy() copies no hooks; so we do."""
    prepared = requests.Request("POST", "http://127.0.0.1/").prepare()
    assert prepared.copy().hooks is prepared.hooks


# -- sseclient-py ----------------------------------------------------------------------


def test_sseclient_takes_blocks_and_an_encoding():
    """SSEClient(blocks, encoding).events(): one event a block; no id is None."""
    blocks = [b"event: a\nid: 7\ndata: \xff\n\n", b"data:\n\n"]
    first, second = SSEClient(blocks, "latin-1").events()
    assert (first.event, first.id, first.data) == ("a", "7", "\xff")
    assert (second.event, second.id, second.data) == ("message", None, "")


# -- the standard library --------------------------------------------------------------


def test_http_client_asks_for_its_response():
    """HTTPConnection.response_class is called with the socket, also for a tunnel."""
    source = inspect.getsource(http.client.HTTPConnection.getresponse)
    assert "self.response_class(self.sock" in source
    assert "self.response_class(self.sock" in inspect.getsource(HTTPConnection._tunnel)


def test_a_chunked_response_tells_where_it_is():
    """chunk_left is 0 after a chunk, and fp is a buffered reader."""
    here, there = socket.socketpair()
    with here, there:
        there.sendall(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"
        )
        response = http.client.HTTPResponse(here)
        response.begin()
        assert response.read1(100) == b"ab"
        assert response.chunk_left == 0
        assert response.fp.peek().startswith(b"\r\n")
        response.close()


def test_a_plain_response_is_never_at_the_end_of_a_chunk():
    """chunk_left of a response that is not chunked is not 0."""
    here, there = socket.socketpair()
    with here, there:
        there.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab")
        response = http.client.HTTPResponse(here)
        response.begin()
        assert response.read1(2) == b"ab"
        assert response.chunk_left != 0
        response.close()


def test_an_answer_that_is_only_announced_has_a_status():
    """HTTPResponse._read_status() reads one line, and begin() asks it for each."""
    here, there = socket.socketpair()
    with here, there:
        there.sendall(b"HTTP/1.1 103 Soon\r\na: b\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")
        response = http.client.HTTPResponse(here)
        assert response._read_status()[:2] == ("HTTP/1.1", 103)
        assert response.fp.readline() == b"a: b\r\n"
        response.close()
    assert "self._read_status()" in inspect.getsource(http.client.HTTPResponse.begin)


def test_a_response_tells_whether_its_connection_ends_with_it():
    """HTTPResponse._check_close() says so, by the headers alone."""
    for header, expected in ((b"", False), (b"Connection: close\r\n", True)):
        here, there = socket.socketpair()
        with here, there:
            there.sendall(b"HTTP/1.1 200 OK\r\n" + header + b"\r\n")
            response = http.client.HTTPResponse(here)
            response.begin()
            assert bool(response._check_close()) is expected
            response.close()


def test_sockets_close_in_c():
    """socket.SocketType.close is no Python code; contexts make sockets of our class."""
    assert isinstance(socket.SocketType.close, types.MethodDescriptorType)
    assert ssl.SSLContext.sslsocket_class is ssl.SSLSocket or (
        ssl.SSLContext.sslsocket_class is None
    )
