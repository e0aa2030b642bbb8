"""Starts, deaths, restarts and ends of a server on pipes."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from support.mcp_stdio import Call, cancelled, go_deaf, serving
from support.threads import LONG, together, until

from syncagent.cancel import CancelToken
from syncagent.exceptions import (
    Cancelled,
    ConfigurationError,
    MCPProtocolError,
    MCPServerLost,
    MCPTimedOut,
)
from syncagent.mcp import MCPServer, MCPTimeouts, Restart
from syncagent.testing import FakeClock, FakeMCPServer, Gate

#: Seconds that a close may take: a step each to flush, for the end of input, SIGTERM.
CLOSE_S = 5.0


def is_alive(pid):
    """True if there is a process, and it is no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


# -- death ---------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["kill", "exit", "close_stdout"])
def test_a_server_that_ends_in_a_call_fails_all_calls_at_once(end):
    """MCP trap 1: each caller learns of it, and the next call starts a new one."""
    with serving() as (server, client):
        client.connect()
        server.on("tools/call", lambda x: x.silence(), times=3)
        calls = [Call(lambda: client.call("echo")) for _ in range(3)]
        server.wait_for(lambda: len(server.requests("tools/call")) == 3)
        process = server.processes[0]
        process.stderr("about to end\n")
        {"exit": lambda: process.exit(3)}.get(end, getattr(process, end))()
        for call in calls:
            error = call.ended().error
            assert isinstance(error, MCPServerLost)
            assert error.started
            assert error.server == "srv"
            assert "about to end" in str(error)
        assert client.call("echo", {"text": "again"}).text == "again"
        assert len(server.processes) == 2


def test_an_answer_right_before_the_end_is_delivered():
    """MCP trap 1: the last words of a server are read."""

    def last_words(exchange):
        exchange.answer({"content": [{"type": "text", "text": "bye"}]})
        exchange.process.exit(0)

    with serving() as (server, client):
        server.on("tools/call", last_words)
        assert client.call("echo").text == "bye"


def test_the_end_of_a_server_is_seen_while_a_child_holds_its_pipes():
    """MCP trap 1: the pipe of a wrapper's child stays open; the process counts."""
    script = (
        "import subprocess, sys, os\n"
        "subprocess.Popen(['sleep', '60'])\n"
        "sys.stderr.write('gone\\n'); sys.stderr.flush(); os._exit(4)\n"
    )
    client = MCPServer.stdio([sys.executable, "-c", script], name="srv")
    began = time.monotonic()
    with pytest.raises(MCPServerLost) as caught:
        client.connect()
    assert "exit status 4" in str(caught.value)
    assert time.monotonic() - began < 10
    client.close()


@pytest.mark.parametrize("rounds", [4, pytest.param(200, marks=pytest.mark.stress)])
def test_cancel_and_death_at_the_same_instant(rounds):
    """MCP trap 13: the call ends either way, and the next one is answered."""
    with serving(restart=Restart(2 * rounds + 2, per=1e-3)) as (server, client):
        for number in range(rounds):
            client.connect()
            server.on("tools/call", lambda x: x.silence())
            token = CancelToken()

            def call(token=token):
                with pytest.raises((Cancelled, MCPServerLost)):
                    client.call("echo", token=token)

            def race(token=token, number=number):
                server.wait_for(lambda: len(server.requests("tools/call")) > number)
                server.processes[-1].kill()
                token.cancel()

            together(call, race)
            until(lambda: client.state == "lost")
        assert client.call("echo").text == "hi"


def test_a_server_that_keeps_ending_is_not_started_for_ever():
    """The restart rule: so many starts in so many seconds, then an error at once."""
    with serving(restart=Restart(1, per=600)) as (server, client):
        for number in range(2):
            client.call("echo")
            server.processes[number].kill()
            until(lambda: client.state == "lost")
        with pytest.raises(MCPServerLost, match="2 times within 600 s"):
            client.call("echo")
        assert len(server.processes) == 2


def test_cancelled_starts_do_not_count_as_ends():
    """Impatient users of a slow server do not use up its restarts."""
    with serving(restart=Restart(1, per=600)) as (server, client):
        server.on("server/discover", lambda x: x.silence(), times=4)
        for number in range(4):
            error = cancelled(
                "thread",
                lambda token: client.call("echo", token=token),
                lambda n=number: server.wait_for(
                    lambda: len(server.requests("server/discover")) > n
                ),
            )
            assert isinstance(error, Cancelled)
            until(lambda: client.state == "idle")
        assert client.call("echo").text == "hi"


def test_nothing_is_sent_twice_after_a_death():
    """A request that the server has seen is never repeated by itself."""
    with serving() as (server, client):
        server.on("tools/call", lambda x: x.process.kill())
        with pytest.raises(MCPServerLost):
            client.call("echo")
        client.call("echo")
        assert len(server.requests("tools/call")) == 2


def test_a_request_that_a_dead_server_has_not_seen_goes_to_the_next_one():
    """A server that ended between two calls is started again without an error."""
    with serving() as (server, client):
        client.call("echo")
        process = go_deaf(server, client)
        big = Call(lambda: client.call("echo", {"text": "x" * 1_000_000}))
        channel = client._client.current._channel
        until(lambda: any(sum(one._written) for one in list(channel._writer._queue)))
        small = Call(lambda: client.call("echo", {"text": "unseen"}))
        until(lambda: len(channel.requests._pending) == 2)
        process.kill()
        assert isinstance(big.ended().error, MCPServerLost)
        assert small.ended().value.text == "unseen"


# -- deafness ------------------------------------------------------------------------


def deaf_after_a_cancel(server, client):
    """Cancel a call of a server that then reads nothing; return its process."""
    server.on("tools/call", lambda x: x.silence())
    client.connect()
    process = []

    def reached():
        server.wait_for(lambda: server.requests("tools/call"))
        process.append(go_deaf(server, client))

    error = cancelled("thread", lambda token: client.call("echo", token=token), reached)
    assert isinstance(error, Cancelled)
    return process[0]


@pytest.mark.slow
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_server_that_a_cancel_made_deaf_is_killed_and_started_again(era):
    """MCP trap 14: a later call does not wait for the cancelled one for ever."""
    with serving(era) as (server, client), FakeClock() as clock:
        process = deaf_after_a_cancel(server, client)
        later = Call(lambda: client.call("echo"))
        until(lambda: len(client._client.current._channel.requests._pending) == 1)
        advance_until(clock, process, lambda: process.has_ended)
        error = later.ended().error
        assert isinstance(error, MCPServerLost)
        assert "read nothing after a request was cancelled" in str(error)
        assert client.call("echo", {"text": "new"}).text == "new"


def advance_until(clock, process, condition):
    """Advance the clock a second at a time; each output wakes the I/O thread."""
    pause, end = threading.Event(), time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        clock.advance(1.0)
        process.stderr(".")
        pause.wait(0.02)


@pytest.mark.slow
def test_a_server_that_answers_the_question_whether_it_is_there_lives_on():
    """Silence proves nothing: some servers never answer a cancelled request."""
    gate = Gate()
    with serving("legacy") as (server, client), FakeClock() as clock:
        server.on("tools/call", lambda x: x.until_cancelled())
        client.connect()
        cancelled(
            "thread",
            lambda token: client.call("echo", token=token),
            lambda: server.wait_for(lambda: server.requests("tools/call")),
        )
        server.wait_for(server.cancels)
        server.on("tools/call", lambda x: x.stop_at(gate))
        later = Call(lambda: client.call("echo"))
        gate.wait_reached()
        process = server.processes[0]
        deafness = client._client.current._channel._deafness
        # No further once it is asked: the answer has few seconds of this clock.
        advance_until(
            clock, process, lambda: deafness._asked_at or server.requests("ping")
        )
        until(lambda: server.requests("ping") and deafness._asked_at is None)
        clock.advance(6.0)
        process.stderr(".")
        gate.open()
        assert later.ended().error is None
        assert later.value.text == "hi"
        assert not process.has_ended


def test_on_cancel_kill_ends_the_server_and_does_not_count():
    """MCP trap 14: certainty for those who need it, as often as they cancel."""
    restart = Restart(1, per=600)
    with serving(on_cancel="kill", restart=restart) as (server, client):
        for number in range(4):
            server.on("tools/call", lambda x: x.silence())
            client.connect()
            error = cancelled(
                "thread",
                lambda token: client.call("echo", token=token),
                lambda n=number: server.wait_for(
                    lambda: len(server.requests("tools/call")) > n
                ),
            )
            assert isinstance(error, Cancelled)
            server.processes[number].wait_ended()
        assert client.call("echo").text == "hi"
        assert server.cancels() == []
        assert len(server.processes) == 5


# -- starts --------------------------------------------------------------------------


def test_a_silent_server_is_given_up_with_its_last_words():
    """MCP trap 5: it answers neither first word; the process is killed."""
    timeouts = MCPTimeouts(start=0.4)
    with serving(timeouts=timeouts, allow_complaints=True) as (server, client):
        server.on("server/discover", lambda x: x.silence())
        server.on("initialize", lambda x: x.silence())
        server.on_start(lambda process: process.stderr("usage: none\n"))
        with pytest.raises(MCPTimedOut, match="usage: none"):
            client.connect()
        server.processes[0].wait_ended()


@pytest.mark.slow
def test_a_server_that_is_silent_about_discover_gets_initialize():
    """MCP trap 5: after a while the other first word is said; that answer decides."""
    with serving("both", allow_complaints=True) as (server, client):
        held = Gate()
        server.on("server/discover", lambda x: x.stop_at(held))
        server.on_start(lambda process: process.stderr("ready\n"))
        with FakeClock() as clock:
            connecting = Call(client.connect)
            server.wait_for(lambda: server.requests("server/discover"))
            process = server.processes[0]
            advance_until(clock, process, lambda: server.requests("initialize"))
            assert connecting.ended().value.era == "legacy"
        held.open()  # the late answer changes nothing
        assert client.call("echo").text == "hi"
        assert client.era == "legacy"


def test_a_megabyte_of_error_output_does_not_block_the_start():
    """MCP trap 5: the error output is always read."""
    with serving() as (server, client):
        server.on_start(lambda process: process.stderr("e" * 1_000_000))
        assert client.call("echo").text == "hi"
        assert len(client.stderr_tail) <= 8192


def test_a_program_that_prints_its_usage_and_ends():
    """MCP trap 5: the error has the exit status and the text."""
    command = [sys.executable, "-c", "import sys; sys.exit('usage: x FOLDER')"]
    with pytest.raises(MCPServerLost, match="usage: x FOLDER") as caught:
        MCPServer.stdio(command, name="srv").connect()
    assert "exit status 1" in str(caught.value)


def test_a_program_that_does_not_exist():
    """The error says what to look for."""
    with pytest.raises(MCPServerLost, match="on the PATH"):
        MCPServer.stdio(["no-such-program-here"]).connect()


def test_a_handshake_without_a_common_version():
    """A clear error, and no process is left."""
    answer = {"protocolVersion": "1999-01-01", "capabilities": {}}
    with serving("legacy", allow_complaints=True) as (server, client):
        server.on("initialize", lambda x: answer)
        with pytest.raises(MCPProtocolError, match="1999-01-01"):
            client.connect()
        server.processes[0].wait_ended()


def test_a_modern_server_that_refuses_the_handshake_is_modern_after_all():
    """An answer -32022 to ``initialize`` has ``server/discover`` asked again."""
    with serving("modern", allow_complaints=True) as (server, client):
        server.on("server/discover", lambda x: x.error(-32603, "not yet"))
        assert client.connect().era == "modern"
        assert client.call("echo").text == "hi"
        assert len(server.requests("server/discover")) == 2


def test_any_number_of_threads_wait_for_one_start():
    """The cancel of some leaves the start to the others."""
    gate = Gate()
    with serving() as (server, client):
        server.on("server/discover", lambda x: x.stop_at(gate))
        tokens = [CancelToken() for _ in range(8)]
        calls = [
            Call(lambda token=token: client.call("echo", token=token))
            for token in tokens
        ]
        gate.wait_reached()
        until(lambda: len(client._client._starting.value.waiting) == 8)
        for token in tokens[:4]:
            token.cancel()
        for call in calls[:4]:
            assert not call.ended().error.started
        gate.open()
        assert [call.ended().value.text for call in calls[4:]] == ["hi"] * 4
        assert len(server.processes) == 1


def test_a_start_that_the_last_one_leaves_is_ended_for_it_alone():
    """A caller who comes while it ends waits for the next start."""
    with serving() as (server, client):
        server.on("server/discover", lambda x: x.silence())
        token = CancelToken()
        first = Call(lambda: client.call("echo", token=token))
        server.wait_for(lambda: server.requests("server/discover"))
        token.cancel()
        assert isinstance(first.ended().error, Cancelled)
        assert client.call("echo").text == "hi"


# -- the end -------------------------------------------------------------------------


def test_opened_used_and_closed_on_three_threads():
    """MCP trap 7: no thread owns a server."""
    with serving() as (server, client):
        Call(client.connect).ended()
        assert Call(lambda: client.call("echo")).ended().value.text == "hi"
        assert Call(client.close).ended().error is None
        server.processes[0].wait_ended()
        assert server.processes[0].stdin_closed


@pytest.mark.slow
def test_close_is_bounded_with_a_server_that_ignores_everything():
    """MCP trap 6: deaf, ignores SIGTERM and the end of its input."""
    with serving() as (server, client):
        client.connect()
        process = server.processes[0]
        process.ignore(signal.SIGTERM)
        process.ends_with_stdin = False
        go_deaf(server, client)
        began = time.monotonic()
        client.close()
        assert time.monotonic() - began < CLOSE_S
        process.wait_ended()


def test_close_twice_and_from_many_threads():
    """MCP trap 6: closing is safe to repeat, and a closed server says so."""
    with serving() as (_server, client):
        client.connect()
        together(*[client.close] * 5)
        client.close()
        assert client.state == "closed"
        with pytest.raises(ConfigurationError, match="was closed"):
            client.call("echo")


def test_close_before_the_first_use():
    """MCP trap 6: there is nothing to end."""
    client = MCPServer.stdio(["no-such-program-here"])
    client.close()
    assert client.state == "closed"


def test_close_during_a_start_ends_it():
    """MCP trap 6: the waiting caller gets an error, and no process is left."""
    with serving() as (server, client):
        server.on("server/discover", lambda x: x.silence())
        call = Call(lambda: client.call("echo"))
        server.wait_for(lambda: server.requests("server/discover"))
        client.close()
        assert isinstance(call.ended().error, ConfigurationError)
        server.processes[0].wait_ended()


def test_close_ends_the_calls_in_flight():
    """MCP trap 6: no caller waits for a server that was closed."""
    with serving() as (server, client):
        server.on("tools/call", lambda x: x.silence())
        client.connect()
        call = Call(lambda: client.call("echo"))
        server.wait_for(lambda: server.requests("tools/call"))
        client.close()
        assert isinstance(call.ended().error, MCPServerLost)


def test_close_in_a_signal_handler_while_the_main_thread_calls():
    """MCP trap 6: the call that was interrupted ends, too."""
    with serving() as (server, client):
        server.on("tools/call", lambda x: x.silence())
        client.connect()
        before = signal.signal(signal.SIGUSR1, lambda *_: client.close())

        def interrupt():
            server.wait_for(lambda: server.requests("tools/call"))
            os.kill(os.getpid(), signal.SIGUSR1)

        interrupting = Call(interrupt)
        try:
            with pytest.raises(MCPServerLost, match="was closed"):
                client.call("echo")
        finally:
            interrupting.ended()
            signal.signal(signal.SIGUSR1, before)


def test_a_server_that_is_freed_is_closed():
    """MCP trap 6: without ``with`` and without ``close()``."""
    with FakeMCPServer() as server:
        client = MCPServer.stdio(server.command, name="srv")
        client.connect()
        del client
        gc.collect()
        server.processes[0].wait_ended()
        until(lambda: "syncagent-mcp-srv" not in map(str, threading.enumerate()))


def run_program(program, *arguments):
    """Run a Python program, and return its process."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_the_end_of_the_interpreter_ends_the_server():
    """MCP trap 6: a program that forgets its server ends at once, and so does that."""
    program = """
        import sys
        from syncagent.mcp import MCPServer
        server = MCPServer.stdio(sys.argv[1:], name="srv")
        server.connect()
        print("connected", flush=True)
    """
    with FakeMCPServer() as server:
        with run_program(program, *server.command) as program:
            assert program.stdout.readline() == "connected\n"
            assert program.wait(LONG) == 0
        server.processes[0].wait_ended()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["command", "wrapped_command"])
def test_kill_9_of_the_agent_ends_the_server(command):
    """MCP trap 8: no orphan, also not behind a wrapper such as npx."""
    program = """
        import sys, threading
        from syncagent.mcp import MCPServer
        server = MCPServer.stdio(sys.argv[1:], name="srv")
        server.connect()
        print("connected", flush=True)
        threading.Event().wait()
    """
    with FakeMCPServer() as server:
        server.on_start(lambda process: setattr(process, "ends_with_stdin", False))
        with run_program(program, *getattr(server, command)) as program:
            assert program.stdout.readline() == "connected\n"
            pid = server.processes[0].pid
            program.kill()
            server.processes[0].wait_ended()
            until(lambda: not is_alive(pid))


@pytest.mark.slow
def test_close_ends_a_wrapper_and_the_server_behind_it():
    """MCP trap 8: the group is signalled, not only its leader."""
    with FakeMCPServer() as server:
        client = MCPServer.stdio(server.wrapped_command, name="srv")
        client.connect()
        process = server.processes[0]
        process.ends_with_stdin = False
        group = client._client.current.pid
        assert group != process.pid
        client.close()
        until(lambda: not is_alive(process.pid) and not is_alive(group))


# -- fork ----------------------------------------------------------------------------


def in_child(function):
    """Call *function* in a forked child; return what it raised or returned, as text."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            try:
                text = str(function())
            except BaseException as error:
                text = f"{type(error).__name__}: {error}"
            os.write(writer, text.encode()[:4000])
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with open(reader) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return text


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_starts_a_server_of_its_own():
    """MCP trap 9: the child touches nothing of its parent's."""
    with serving() as (server, client):
        client.call("echo")
        text = in_child(
            lambda: [client.call("echo", {"text": "child"}).text, client.close()]
        )
        assert text == "['child', None]"
        assert client.call("echo", {"text": "parent"}).text == "parent"
        assert len(server.processes) == 2
        assert not server.processes[0].has_ended


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_in_the_middle_of_a_call_fails_it_in_the_child_only():
    """MCP trap 9: the child neither reads the answer nor cancels the call."""
    gate = Gate()

    def slow(exchange):
        exchange.progress(1)
        exchange.stop_at(gate)

    with serving() as (server, client):
        server.on("tools/call", slow)
        client.connect()
        texts = []
        parent = os.getpid()

        def fork(report):
            reader, writer = os.pipe()
            pid = os.fork()
            if not pid:
                os.close(reader)
                raise InChild(writer)
            os.close(writer)
            with open(reader) as pipe:
                texts.append(pipe.read())
            os.waitpid(pid, 0)
            gate.open()

        try:
            result = client.call("echo", {"text": "mine"}, on_progress=fork)
        except InChild as in_child_error:
            try:
                os.write(in_child_error.writer, b"unwound")
            finally:
                os._exit(0)
        assert os.getpid() == parent
        assert texts == ["unwound"]
        assert result.text == "mine"
        assert server.cancels() == []


class InChild(BaseException):
    """Unwinds the stack in a forked child."""

    def __init__(self, writer):
        super().__init__(writer)
        self.writer = writer


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_another_thread_reads_a_list_does_not_lock_the_child():
    """MCP trap 9: a lock that another thread holds is a new one in the child."""
    with serving() as (_server, client):
        client.connect()
        with client._lists._lock:  # the forking thread is not the one that holds it
            text = Call(
                lambda: in_child(lambda: len(client.definitions(CancelToken(5))))
            )
            assert text.ended().value == "1"
