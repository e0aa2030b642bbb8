"""Clients that stay connected and read nothing, and too many of them."""

import socket
import threading
from contextlib import ExitStack

import pytest
from support.threads import LONG, until
from support.web.runs import ANNA, agent_of, finished, how_it_ended, make_runs, silent
from support.web.servers import SERVERS, Deaf, Server, moments

from syncagent import tool
from syncagent.integrations.web.errors import Refused
from syncagent.integrations.web.watcher import Connection, StallCheck, watch
from syncagent.testing import FakeClock, call, say

#: The seconds that a client has in these tests.
SLOW = "0.5"
CUT = "disconnected a client that did not read its stream within 0.5 s"


def lock_out(server, fake, stack, talk="flood"):
    """Let as many deaf clients come as the server has threads."""
    number = server.threads
    clients = [stack.enter_context(Deaf(server, fake, talk)) for _ in range(number)]
    assert any(len(fake.requests) >= number for _ in moments())
    return clients


@pytest.mark.parametrize("name", ["gunicorn-gthread", "werkzeug"])
def test_a_crowd_that_reads_nothing(name, fake):
    """M2: clients that never read do not keep the threads of a server."""
    with Server(name, threads=4, SLOW=SLOW) as server, ExitStack() as stack:
        clients = lock_out(server, fake, stack)
        # Served again, although all of them are still connected.
        assert server.wait_until_free()["ended"]
        with server.stream("hello", fake) as client:
            assert client.until("end")[2]["text"] == "Hello."
        assert all(client.is_reset() for client in clients)
        assert any(CUT in server.log() for _ in moments())


@pytest.mark.slow
def test_one_that_reads_nothing_of_a_sync_worker(fake):
    """M2: the only worker is free again, before its --timeout."""
    with Server("gunicorn-sync", "--timeout", "60", SLOW=SLOW) as server:
        pid = server.state()["pid"]
        with Deaf(server, fake):
            assert any(fake.requests for _ in moments())
            assert server.wait_until_free()["pid"] == pid
            with server.stream("hello", fake) as client:
                assert client.until("end")[2]["text"] == "Hello."


@pytest.mark.skipif("waitress" not in SERVERS, reason="waitress is not installed")
@pytest.mark.parametrize("talk", ["flood", "deluge"])
@pytest.mark.slow
def test_waitress(talk, fake):
    """M2: waitress buffers up to 16 MB, and waits for the client after that."""
    with Server("waitress", threads=4, SLOW=SLOW) as server, ExitStack() as stack:
        lock_out(server, fake, stack, talk)
        server.wait_until_free()
        with server.stream("hello", fake) as client:
            assert client.until("end")[2]["text"] == "Hello."


def test_one_that_reads_slowly_is_not_cut_off(gthread, fake):
    """M2: a client that takes its time, and takes something, gets everything."""
    with gthread.stream("long", fake) as client:
        names = [event[1] for event in client.events() if event]
    assert names[-1] == "end"


# -- the watcher -------------------------------------------------------------------


def test_a_stalled_connection_is_shut_down():
    """M2: the watcher ends the connection under a thread that is stuck in send()."""
    ours, theirs = socket.socketpair()
    stuck, lost = threading.Event(), threading.Event()

    def send():
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            while True:
                ours.sendall(b"x" * 65536)
        stuck.set()

    sender = threading.Thread(target=send)
    with ours, theirs:
        sender.start()
        is_late = threading.Event()
        stall = StallCheck(is_late.is_set, 0.1)
        watch(Connection(ours.fileno(), ours), lost.set, stall)
        assert not stuck.wait(0.2)
        is_late.set()
        assert stuck.wait(LONG)
        assert lost.wait(LONG)
        sender.join(LONG)


def test_a_reused_descriptor_is_left_alone():
    """M2: another connection that has got the same number is not shut down."""
    first, other = socket.socketpair()
    number = first.fileno()
    connection = Connection(number)
    with other:
        first.close()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            assert number in (ours.fileno(), theirs.fileno())
            connection.shut_down()
            ours.sendall(b"alive")
            assert theirs.recv(5) == b"alive"
    connection.shut_down()  # nothing has that number now


def test_closing_a_kept_alive_connection():
    """SHUT_RD lets the response out, and the server finds the end of the input."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Connection(ours.fileno()).shut_down(socket.SHUT_RD)
        ours.sendall(b"response")
        assert theirs.recv(8) == b"response"
        assert ours.recv(1) == b""


# -- which streams are slow --------------------------------------------------------


@tool(requires_approval=True)
def launch() -> str:
    """Launch it."""
    return "launched"


def test_when_a_stream_has_stalled():
    """M2: waiting for the run is not slow; not taking a chunk is."""
    with FakeClock() as clock, make_runs(slow_seconds=60) as runs:
        agent = agent_of(say(call("launch")), tools=[launch])
        run = runs.start(agent, "Go.", owner=ANNA)
        until(lambda: run.handle.interrupts)
        stream = runs.follow(run)
        clock.advance(59)
        assert not stream.has_stalled()
        next(stream)
        clock.advance(59)
        assert not stream.has_stalled()
        clock.advance(1)
        assert stream.has_stalled()
        stream.sent_at = None  # the server waits for the next chunk
        assert not stream.has_stalled()
        stream.close()


def test_a_stream_ends_some_time_after_its_run():
    """M2: after the end of its run a client that reads a byte now and then is slow."""
    with FakeClock() as clock, make_runs(slow_seconds=60) as runs:
        run = finished(runs, "Hello.")
        until(lambda: run.ended_clock is not None)
        clock.advance(100)
        stream = runs.follow(run)  # just opened, of an old run
        assert not stream.has_stalled()
        clock.advance(40)
        next(stream)
        assert not stream.has_stalled()
        clock.advance(20)
        assert stream.has_stalled()
        stream.close()


@pytest.mark.parametrize("environ", [{}, {"SERVER_SOFTWARE": "other/1"}])
def test_a_server_that_hides_its_connections(environ):
    """M2: there at least the stream is closed, and the run ends."""
    with make_runs(slow_seconds=0.1) as runs:
        run = silent(runs)
        stream = runs.follow(run, environ=environ)
        next(stream)
        assert how_it_ended(run) == ("cancelled", "disconnect")
        assert list(stream) == []


# -- how many ----------------------------------------------------------------------


def test_followers_of_a_run():
    """M2: a run has so many followers at most; one that leaves makes room."""
    with make_runs(max_followers=2) as runs:
        run = silent(runs)
        streams = [runs.follow(run) for _ in range(2)]
        with pytest.raises(Refused, match="too many open streams") as refused:
            runs.follow(run)
        assert (refused.value.status, refused.value.code) == (429, "too_many_followers")
        assert refused.value.retry_after
        assert run.is_live
        streams.pop().close()
        streams.append(runs.follow(run))
        for stream in streams:
            stream.close()


def test_followers_of_an_owner():
    """M2: so have all runs of an owner together; other owners are not concerned."""
    with make_runs(max_followers_per_owner=3) as runs:
        first, second = silent(runs), silent(runs)
        other = silent(runs, owner="bert")
        streams = [runs.follow(run) for run in (first, first, second)]
        with pytest.raises(Refused):
            runs.follow(second)
        with pytest.raises(Refused):
            runs.check_followers(ANNA)
        streams.append(runs.follow(other))
        for stream in streams:
            stream.close()


def test_many_at_the_same_moment():
    """M2: threads that open streams at the same moment do not pass the limit."""
    with make_runs(max_followers=5) as runs:
        run = silent(runs)
        streams, barrier = [], threading.Barrier(16)

        def follow():
            barrier.wait(LONG)
            try:
                streams.append(runs.follow(run))
            except Refused:
                pass

        threads = [threading.Thread(target=follow) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
        assert len(streams) <= 5
        assert run.follower_count == len(streams)
        for stream in streams:
            stream.close()
