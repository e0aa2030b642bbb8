"""Under gunicorn runs end with their worker: at once, and with their last event."""

import os
import signal
import time
from contextlib import ExitStack

import pytest
from support.threads import LONG
from support.web.servers import HERE, Server, moments

pytestmark = pytest.mark.slow

WORKERS = ["gunicorn-sync", "gunicorn-gthread"]
#: Seconds for which gunicorn on its own would let a stream continue.
GRACEFUL = 15


def has_ended(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def check_left(server, pid=None):
    """See that the server, or one worker of it, leaves long before it is killed."""
    begin = time.monotonic()
    if pid is None:
        assert server.process.wait(LONG) == 0
    else:
        assert any(has_ended(pid) for _ in moments())
    # No measure of speed: this tells leaving from being killed in the end.
    assert time.monotonic() - begin < GRACEFUL - 3


@pytest.mark.parametrize("worker", WORKERS)
def test_sigterm(worker, fake):
    """Issue 8: SIGTERM cancels with origin ``shutdown``, and the last event arrives."""
    with Server(worker) as server:
        with server.stream("stall", fake) as client:
            client.until("text_delta")
            server.process.terminate()
            _, _, view = client.until("end")
        assert view["stop_reason"] == "cancelled"
        assert view["cancellation"]["origin"] == "shutdown"
        assert view["cancellation"]["reason"] == "SIGTERM"
        assert view["text"]
        fake.wait_for_hang_up()
        check_left(server)


@pytest.mark.parametrize("worker", WORKERS)
def test_sigterm_in_a_tool(worker, fake):
    """Issue 8: a tool that cooperates does not hold up the end of its worker."""
    with Server(worker) as server:
        with server.stream("endless tool", fake) as client:
            client.until("tool_started")
            server.process.terminate()
            _, _, view = client.until("end")
        assert view["tool_outcomes"][0]["outcome"] == "interrupted"
        check_left(server)


@pytest.mark.parametrize("worker", WORKERS)
def test_sigterm_while_a_handler_blocks(worker, fake):
    """Issue 8: run() in a handler ends too, and its response is still sent."""
    with Server(worker) as server:
        with server.block("stall", fake) as client:
            assert any(fake.requests for _ in moments())
            server.process.terminate()
            assert client.response.status == 200
            client.response.read()
        fake.wait_for_hang_up()
        check_left(server)


def test_sigquit_with_threads(fake):
    """Issue 8: SIGQUIT is quick, and even then the last event arrives."""
    with Server("gunicorn-gthread") as server:
        with server.stream("stall", fake) as client:
            client.until("text_delta")
            server.process.send_signal(signal.SIGQUIT)
            _, _, view = client.until("end")
        assert view["cancellation"]["origin"] == "shutdown"
        fake.wait_for_hang_up()
        check_left(server)


def test_sigquit_without_threads(fake):
    """Issue 8: SIGQUIT cuts a sync worker's own stream; its run ends all the same."""
    with Server("gunicorn-sync") as server:
        with server.stream("stall", fake) as client:
            client.until("text_delta")
            server.process.send_signal(signal.SIGQUIT)
            fake.wait_for_hang_up()
        check_left(server)


def test_a_worker_that_takes_too_long(fake):
    """Issue 8: a sync worker that is aborted ends its run; the next one serves."""
    with Server("gunicorn-sync", "--timeout", "1") as server:
        before = server.state()["pid"]
        with server.stream("stall", fake) as client:
            client.until("text_delta")
            fake.wait_for_hang_up()
        check_left(server, before)
        assert server.state()["pid"] != before
        with server.stream("hello", fake) as client:
            assert client.until("end")[2]["text"] == "Hello."
        assert "ended by shutdown: the worker took too long" in server.log()


@pytest.mark.stress
def test_a_stream_may_be_longer_than_the_timeout(fake):
    """With threads a worker's --timeout does not apply to a stream."""
    # Not one second: that is how often the worker tells gunicorn that it is alive.
    with Server("gunicorn-gthread", "--timeout", "4", HEARTBEAT="0.5") as server:
        before = server.state()["pid"]
        with server.stream("silence", fake) as client:
            beats = 0
            for event in client.events():
                beats += event is None
                if beats == 12:
                    break
        assert server.wait_until_free()["pid"] == before


def test_one_worker_of_several(fake):
    """SIGTERM to one worker ends its runs, and no other's."""
    with ExitStack() as stack:
        server = stack.enter_context(Server("gunicorn-gthread", "--workers", "2"))
        for _ in range(4):
            client = stack.enter_context(server.stream("stall", fake))
            client.until("text_delta")
            client.read_on()
        before = server.processes()
        state = server.wait(lambda state: state["live"], "a worker with runs")
        os.kill(state["pid"], signal.SIGTERM)
        fake.wait_for_hang_up(state["live"])
        check_left(server, state["pid"])
        assert len(fake.hang_ups) == state["live"]
        # One that has just been forked does not hear the signals of gunicorn yet.
        server.wait(lambda state: state["pid"] not in before, "a new worker")


def test_preload(fake):
    """Promise 9: an application that is loaded before the fork works in its workers."""
    with Server("gunicorn-gthread", "--preload", "--workers", "2") as server:
        with server.stream("stall", fake) as client:
            client.until("text_delta")
            server.process.terminate()
            assert client.until("end")[2]["cancellation"]["origin"] == "shutdown"
        check_left(server)
        assert "forked with live runs" not in server.log()


def test_hooks_of_ones_own(fake):
    """Our hooks are called from those of a project, which has both then."""
    conf = str(HERE / "composed.conf.py")
    with Server("gunicorn-gthread", "-c", conf) as server:
        with server.stream("stall", fake) as client:
            client.until("text_delta")
            server.process.terminate()
            assert client.until("end")[2]["cancellation"]["origin"] == "shutdown"
        check_left(server)
        assert "my own post_worker_init" in server.log()
        assert "my own worker_exit" in server.log()


def test_detached_runs_end_with_their_worker(fake):
    """A run without followers ends with its worker, too, and gets the reason."""
    with Server("gunicorn-gthread", ON_DISCONNECT="detach") as server:
        with server.stream("stall", fake) as client:
            client.until("text_delta")
        assert server.state()["live"] == 1
        server.process.terminate()
        fake.wait_for_hang_up()
        check_left(server)


def test_a_worker_that_has_served_enough(fake):
    """A run without followers ends in order when --max-requests ends its worker."""
    more = ("--max-requests", "3")
    with Server("gunicorn-gthread", *more, ON_DISCONNECT="detach") as server:
        with server.stream("stall", fake) as client:
            client.until("text_delta")
        before = server.state()["pid"]
        fake.wait_for_hang_up()
        check_left(server, before)
        assert server.state()["pid"] != before  # the next one hears signals by now
        assert "ended by shutdown: the worker exits" in server.log()
