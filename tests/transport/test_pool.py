"""What is kept for the next request, and in which state."""

import pickle
import shutil
import socket
import threading
from typing import ClassVar

import pytest
import requests
from harness import new_id
from hostile import one_shot
from support.threads import LONG

from syncagent import Cancelled, CancelToken
from syncagent.exceptions import ConfigurationError, ConnectionFailed
from syncagent.testing import no_leaks
from syncagent.transport import CancellableAdapter, Transport, close_idle, tls
from syncagent.transport.adapter import _adapters, shared_adapter
from syncagent.transport.connections import (
    IdleConnections,
    PlainConnection,
    PlainPool,
    TlsPool,
)
from syncagent.transport.sockets import FOREVER


class Noting(IdleConnections):
    """Notes of each connection that comes back whether it has a line, and a socket."""

    seen: ClassVar = []

    def put(self, item, block=False):
        if item is not None:
            self.seen.append((item._held, item.sock))
        super().put(item, block)


class NotingPlainPool(PlainPool):
    QueueCls = Noting


class NotingTlsPool(TlsPool):
    QueueCls = Noting


class NotingAdapter(CancellableAdapter):
    """An adapter whose pools note what comes back to them."""

    pools: ClassVar = {"http": NotingPlainPool, "https": NotingTlsPool}

    def init_poolmanager(self, *args, **kwargs):
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = self.pools

    def proxy_manager_for(self, *args, **kwargs):
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = self.pools
        return manager


@pytest.fixture
def noting(certificates):
    """A session with such an adapter."""
    with requests.Session() as session:
        session.verify = certificates.authority
        session.mount("http://", NotingAdapter())
        session.mount("https://", NotingAdapter())
        yield session
    Noting.seen.clear()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_no_cancel_can_reach_a_connection_that_is_back(server, noting, scheme):
    """Promise 9: it is let go of first, so that its next user is safe."""
    transport = Transport(session=noting)
    transport.post(server.url("ok", scheme), json={})
    list(transport.stream(server.url("chunked/e/end", scheme), json={}))
    assert [line for line, _ in Noting.seen] == [None, None]


def test_a_connection_that_a_cancel_has_ended_is_not_kept(server, noting):
    """Only its empty place goes back."""
    token, identity = CancelToken(), new_id()
    stream = Transport(session=noting).stream(
        server.url("chunked/e/stall", id=identity), token=token, json={}
    )
    next(stream)
    token.cancel()
    with pytest.raises(Cancelled):
        next(stream)
    assert [sock for _, sock in Noting.seen] == [None]


class Interrupted(BaseException):
    """What a signal handler raises."""


class InterruptedPut(IdleConnections):
    """Is interrupted by a signal handler right after a connection was put."""

    kept: ClassVar = []

    def put(self, item, block=False):
        super().put(item, block)
        if item is not None:
            self.kept.append(item)
            raise Interrupted


class InterruptedPool(PlainPool):
    QueueCls = InterruptedPut


class InterruptedAdapter(NotingAdapter):
    pools: ClassVar = {"http": InterruptedPool}


def test_a_connection_is_put_back_once_whatever_a_signal_handler_raises(server):
    """Promise 9: put back twice it would serve two threads at the same time."""
    with requests.Session() as session:
        session.mount("http://", InterruptedAdapter())
        with pytest.raises(Interrupted):
            Transport(session=session).post(server.url("ok"), json={})
        (connection,) = InterruptedPut.kept
        assert connection.sock is not None  # it may be another thread's by now


def test_connections_found_by_a_resolver_are_for_nobody_else(server):
    """Another transport to the same host asks the system."""

    def here(host, port, family, kind):
        return socket.getaddrinfo("127.0.0.1", port, family, kind)

    url = server.url("ok").replace("127.0.0.1", "nowhere.invalid")
    transport = one_shot(resolver=here, allow_insecure=True)
    assert transport.post(url, json={}).status == 200
    with pytest.raises(ConnectionFailed, match="looked up"):
        one_shot(allow_insecure=True).post(url, json={})
    close_idle()


@pytest.mark.slow
def test_an_address_that_does_not_answer_leaves_time_for_the_next(server):
    """Each of several has its share of the time to connect."""

    def two(host, port, family, kind):
        full = socket.getaddrinfo("127.0.0.1", server.ports["full"], family, kind)
        return [*full, *socket.getaddrinfo("127.0.0.1", port, family, kind)]

    transport = one_shot(resolver=two, timeout=(1.0, LONG))
    assert transport.post(server.url("ok"), json={}).status == 200
    close_idle()


def test_a_stack_has_its_size():
    """urllib3 closes what does not fit."""
    adapter = CancellableAdapter(pool_maxsize=2)
    pool = adapter.poolmanager.connection_from_url("http://127.0.0.1:1/")
    connections = [pool._get_conn() for _ in range(5)]
    for connection in connections:
        pool._put_conn(connection)
    assert pool.pool.qsize() == 2


def test_every_socket_has_a_timeout():
    """One without would wait where no signal handler can run."""
    for timeout in (None, 3.0):
        connection = PlainConnection("127.0.0.1", timeout=timeout)
        assert connection.timeout == (timeout or FOREVER)


@pytest.mark.parametrize("proxied", [False, True])
def test_small_packets_are_not_held_back(server, noting, proxied):
    """Nagle's algorithm would wait for an acknowledgement, also with a proxy."""
    noting.proxies = server.proxies() if proxied else {}
    Transport(session=noting).post(server.url("ok"), json={})
    [(_, sock)] = Noting.seen
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_unpickled_adapter_is_known(server):
    """So that a forked child makes it anew as well."""
    assert pickle.loads(pickle.dumps(CancellableAdapter())) in list(_adapters)


# -- closing ---------------------------------------------------------------------------


def test_what_is_idle_can_be_closed(server):
    """The next request makes a new connection."""
    first = Transport().post(server.url("echo"), json={}).json()["connection"]
    close_idle()
    assert Transport().post(server.url("echo"), json={}).json()["connection"] != first


def test_what_is_in_use_goes_on(server, transport):
    """Closing is for those that wait."""
    stream = transport.stream(server.url("chunked/e/wait/e/end"), json={})
    next(stream)
    close_idle()
    server.go_on()
    assert len(list(stream)) == 1


def test_idle_connections_are_no_leak(server):
    """Users may have no_leaks() around tests that make requests."""
    with no_leaks():
        Transport().post(server.url("ok"), json={})


# -- TLS -------------------------------------------------------------------------------


def test_contexts_are_shared_and_left_alone(server, transport):
    """One for all connections; urllib3's own settings do not disturb it."""
    tls._contexts.clear()
    for _ in range(2):
        transport.post(server.url("ok", "https"), json={})
        shared_adapter().close()
    [context] = tls._contexts.values()
    assert "set_alpn_protocols" in vars(context)  # ours, which changes nothing


class Trusting(CancellableAdapter):
    """An adapter of a user who checks no names."""

    def init_poolmanager(self, *args, **kwargs):
        super().init_poolmanager(*args, **kwargs, assert_hostname=False)


def test_an_adapter_that_checks_no_names_is_alone(server, certificates, transport):
    """L9: it has a context of its own; that of everybody else still checks them."""
    tls._contexts.clear()
    session = requests.Session()
    session.verify = certificates.authority
    session.mount("https://", Trusting())
    assert (
        Transport(session=session).post(server.url("ok", "https"), json={}).status
        == 200
    )
    transport.post(server.url("ok", "https"), json={})
    checks = sorted(context.check_hostname for context in tls._contexts.values())
    assert checks == [False, True]


@pytest.mark.parametrize(
    ("module", "name"), [("select", "poll"), ("socket", "AF_UNIX")]
)
def test_a_platform_that_lacks_something(monkeypatch, server, module, name):
    """L13: on Windows, and with eventlet, the error says what to do."""
    shared_adapter().close()
    monkeypatch.delattr(f"{module}.{name}")
    with pytest.raises(ConfigurationError, match="use WSL"):
        Transport().post(server.url("ok"), json={})


def test_contexts_of_a_proxy_with_tls_are_shared_too(server, certificates):
    """Reading the authorities again for each connection would hold up a cancel."""
    tls._contexts.clear()
    transport = one_shot(
        verify=certificates.authority,
        cert=certificates.client,
        proxies=server.proxies("https"),
    )
    for _ in range(2):
        transport.post(server.url("ok", "https"), json={})
        shared_adapter().close()
    with_and_without_our_certificate = 2
    assert len(tls._contexts) == with_and_without_our_certificate


def test_authorities_that_have_changed_are_read_again(server, certificates, tmp_path):
    """Without a restart."""
    bundle = tmp_path / "bundle.pem"
    other = certificates.other_authority
    shutil.copy(other, bundle)
    transport = one_shot(verify=str(bundle))
    with pytest.raises(ConnectionFailed, match="not trusted"):
        transport.post(server.url("ok", "https"), json={})
    shutil.copy(certificates.authority, bundle)
    assert transport.post(server.url("ok", "https"), json={}).status == 200


def test_many_threads_and_one_bundle(server, transport):
    """Whoever comes first reads it; the others do not fail meanwhile."""
    tls._contexts.clear()
    answers, ready = [], threading.Barrier(10)

    def call():
        ready.wait(LONG)
        answers.append(transport.post(server.url("ok", "https"), json={}).status)

    threads = [threading.Thread(target=call) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert answers == [200] * 10
