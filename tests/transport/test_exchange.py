"""One attempt, as connections see it."""

from syncagent import CancelToken
from syncagent.transport import CancellableAdapter
from syncagent.transport.exchange import Exchange, current


def test_it_is_known_on_its_thread_for_as_long_as_it_lasts():
    """Inside of another one, too."""
    outer, inner = Exchange(CancelToken()), Exchange(CancelToken())
    with outer.bound():
        with inner.bound():
            assert current() is inner
        assert current() is outer
    assert current() is None


def test_one_that_is_over_is_nobodys():
    """Even if a signal handler has raised where it was to be forgotten."""
    exchange = Exchange(CancelToken())
    block = exchange.bound()
    block.__enter__()
    exchange.close()
    assert current() is None
    block.__exit__(None, None, None)


def test_a_connection_that_is_cancelled_on_its_way_back_is_closed(server):
    """Between the end of an answer and the pool there is a moment, too."""
    token = CancelToken()
    exchange = Exchange(token)
    manager = CancellableAdapter().poolmanager
    pool = manager.connection_from_url(server.url("ok"))
    with exchange.bound():
        connection = pool._get_conn()
        connection.connect()
    token.cancel()
    pool._put_conn(connection)
    assert connection.sock is None
    exchange.close()
