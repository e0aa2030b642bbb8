"""Cancel a call over stdio in each of its phases.

Each test ends with the same session answering the next call, and a server without
complaints: exactly one ``notifications/cancelled`` with the right id, or none.
"""

import os
import threading
from contextlib import suppress

import pytest
from support.mcp_stdio import WAYS, cancelled, go_deaf, serving
from support.threads import together, until

from syncagent.cancel import CancelToken
from syncagent.exceptions import Cancelled, MCPTimedOut
from syncagent.mcp import MCPServer, MCPTimeouts
from syncagent.testing import Gate

ways = pytest.mark.parametrize("way", WAYS)
eras = pytest.mark.parametrize("era", ["legacy", "modern"])

MEGABYTE = "x" * 1_000_000


def check_next_call(server, client):
    """See that the same process answers, and that nothing is pending."""
    assert client.call("echo", {"text": "next"}).text == "next"
    assert len(server.processes) == 1
    assert pending_of(client) == {}


def pending_of(client):
    return client._client.current._channel.requests._pending


@ways
@eras
def test_cancel_while_waiting_tells_the_server_once(era, way):
    """MCP traps 10 and 11: one notification with the id of the call."""
    with serving(era) as (server, client):
        server.on("tools/call", lambda x: x.until_cancelled())
        client.connect()
        error = cancelled(
            way,
            lambda token: client.call("echo", token=token),
            lambda: server.wait_for(lambda: server.requests("tools/call")),
        )
        assert isinstance(error, Cancelled)
        assert error.started
        assert error.reason == "enough"
        server.wait_for(server.cancels)
        check_next_call(server, client)
        assert server.cancels() == [server.requests("tools/call")[0].id]
        (notice,) = server.notifications("notifications/cancelled")
        assert notice.params["reason"] == "enough"


@ways
def test_cancel_before_the_write_takes_the_request_back(way):
    """MCP trap 10: the server has seen nothing, so nothing has started."""
    with serving() as (server, client):
        client.connect()
        process = go_deaf(server, client)
        first = CancelToken()
        with_big = threading.Thread(
            target=lambda: swallow(client, {"text": MEGABYTE}, first), daemon=True
        )
        with_big.start()
        until(lambda: is_half_written(client))
        error = cancelled(
            way,
            lambda token: client.call("echo", {"text": "unseen"}, token=token),
            lambda: until(lambda: len(pending_of(client)) == 2),
        )
        assert isinstance(error, Cancelled)
        assert not error.started
        process.listen()
        with_big.join(20)
        check_next_call(server, client)
        texts = [each.params["arguments"] for each in server.requests("tools/call")]
        assert {"text": "unseen"} not in texts
        assert server.cancels() == []


def swallow(client, arguments, token):
    """Call echo; a cancel is no error."""
    try:
        client.call("echo", arguments, token=token)
    except Cancelled:
        pass


def test_a_full_pipe_has_seen_nothing_of_the_next_request():
    """MCP trap 10: a request that found no room at all can be taken back."""
    line = b'{"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}'
    with serving("legacy") as (server, client):
        client.connect()
        process = go_deaf(server, client)
        channel = client._client.current._channel
        with suppress(BlockingIOError):
            while True:
                os.write(channel._input, line.ljust(4095) + b"\n")
        error = cancelled(
            "thread",
            lambda token: client.call("echo", {"text": "unseen"}, token=token),
            lambda: until(lambda: channel._writer.has_more),
        )
        assert not error.started
        process.listen()
        check_next_call(server, client)
        assert len(server.requests("tools/call")) == 1
        assert server.cancels() == []


@ways
def test_cancel_in_a_half_written_request_returns_at_once(way):
    """MCP trap 10: the request is finished later, and its cancel follows it."""
    with serving() as (server, client):
        client.connect()
        process = go_deaf(server, client)
        error = cancelled(
            way,
            lambda token: client.call("echo", {"text": MEGABYTE}, token=token),
            lambda: until(lambda: is_half_written(client)),
        )
        assert isinstance(error, Cancelled)
        assert error.started
        process.listen()
        server.wait_for(server.cancels)
        check_next_call(server, client)
        first = server.requests("tools/call")[0]
        assert first.params["arguments"] == {"text": MEGABYTE}
        assert server.cancels() == [first.id]


def is_half_written(client):
    queue = client._client.current._channel._writer._queue
    return any(sum(one._written) for one in list(queue))


@ways
@eras
def test_cancel_between_progress_events(era, way):
    """MCP trap 10: progress has come, and more would come."""
    seen = threading.Event()

    def slow(exchange):
        exchange.progress(1, 3, "one")
        exchange.until_cancelled()
        exchange.progress(2, 3, "late")

    with serving(era) as (server, client):
        server.on("tools/call", slow)
        client.connect()
        reports = []

        def note(report):
            reports.append(report)
            seen.set()

        error = cancelled(
            way,
            lambda token: client.call("echo", token=token, on_progress=note),
            lambda: seen.wait(20),
        )
        assert isinstance(error, Cancelled)
        server.wait_for(server.cancels)
        check_next_call(server, client)
        assert [one.message for one in reports] == ["one"]
        assert server.cancels() == [server.requests("tools/call")[0].id]


@ways
@eras
def test_cancel_in_a_page_of_a_list(era, way):
    """MCP trap 10: lists are requests like any other."""
    with serving(era, fake={"page_size": 1}) as (server, client):
        server.add_tool({"name": "two", "inputSchema": {"type": "object"}})
        server.on("tools/list", lambda x: None)
        server.on("tools/list", lambda x: x.until_cancelled())
        client.connect()
        error = cancelled(
            way,
            lambda token: client.definitions(token),
            lambda: server.wait_for(lambda: len(server.requests("tools/list")) == 2),
        )
        assert isinstance(error, Cancelled)
        server.wait_for(server.cancels)
        check_next_call(server, client)
        assert server.cancels() == [server.requests("tools/list")[1].id]
        assert len(client.definitions(CancelToken())) == 2


@ways
def test_cancel_during_the_start_kills_the_group(way):
    """MCP trap 10: ``initialize`` is never cancelled by a message."""
    with serving() as (server, client):
        server.on("server/discover", lambda x: x.silence())
        error = cancelled(
            way,
            lambda token: client.call("echo", token=token),
            lambda: server.wait_for(lambda: server.requests("server/discover")),
        )
        assert isinstance(error, Cancelled)
        assert not error.started
        server.processes[0].wait_ended()
        assert server.cancels() == []
        assert client.call("echo", {"text": "next"}).text == "next"


@ways
def test_cancel_in_the_pause_before_a_restart(way):
    """MCP trap 10: no process is started for a call that was cancelled."""
    with serving() as (server, client):
        for number in range(2):
            client.call("echo")
            server.processes[number].kill()
            until(lambda: client.state == "lost")
        error = cancelled(
            way,
            lambda token: client.call("echo", token=token),
            lambda: until(lambda: client.state == "starting"),
        )
        assert isinstance(error, Cancelled)
        assert not error.started
        until(lambda: client.state == "lost")
        assert len(server.processes) == 2


@ways
def test_cancel_between_rounds_needs_no_message(way):
    """MCP trap 10: between two rounds of a modern call nothing runs at the server."""

    def ask_nothing(exchange):
        raise exchange.input_required({})

    with serving("modern") as (server, client):
        server.add_tool({"name": "slow", "inputSchema": {"type": "object"}})
        server.on("tools/call", ask_nothing, name="slow")
        client.connect()
        error = cancelled(
            way,
            lambda token: client.call("slow", token=token),
            lambda: server.wait_for(lambda: len(server.requests("tools/call")) == 4),
        )
        assert isinstance(error, Cancelled)
        assert error.started
        check_next_call(server, client)
        rounds = [one.id for one in server.requests("tools/call")]
        assert server.cancels() in ([], rounds[-2:-1])  # the last round may have begun


def test_a_cancel_in_a_later_round_has_started():
    """A request of a later round that is taken back is no call that never began."""
    with serving("modern") as (server, _client):
        asked = Gate()

        def elicit(request):
            asked.stop_here()
            return {"name": "Ada"}

        other = MCPServer.stdio(server.command, name="other", elicit=elicit)
        with other:
            server.on("tools/call", lambda x: x.elicit("Who?", FORM))
            process = None
            token = CancelToken()

            def call():
                with pytest.raises(Cancelled) as caught:
                    other.call("echo", token=token)
                assert caught.value.started

            def cancel():
                nonlocal process
                asked.wait_reached()
                process = go_deaf(server, other)
                filler = threading.Thread(
                    target=swallow, args=(other, {"text": MEGABYTE}, token), daemon=True
                )
                filler.start()
                until(lambda: is_half_written(other))
                asked.open()
                until(lambda: len(pending_of(other)) == 2)
                token.cancel()
                filler.join(20)

            together(call, cancel)
            process.listen()
            server.wait_for(server.cancels)


FORM = {"type": "object", "properties": {"name": {"type": "string"}}}


@eras
def test_a_timeout_is_a_cancel_on_the_wire(era):
    """MCP trap 16: silence for longer than ``idle`` ends the call, and is told."""
    timeouts = MCPTimeouts(idle=0.1)
    with serving(era, timeouts=timeouts) as (server, client):
        server.on("tools/call", lambda x: x.until_cancelled())
        with pytest.raises(MCPTimedOut, match="no sign of life"):
            client.call("echo")
        server.wait_for(server.cancels)
        check_next_call(server, client)
        (notice,) = server.notifications("notifications/cancelled")
        assert notice.params["requestId"] == server.requests("tools/call")[0].id
        assert notice.params["reason"] == "timed out"


def test_progress_extends_the_idle_time_and_not_the_total():
    """MCP trap 16: a server that reports for ever still ends with the total."""
    over = threading.Event()

    def endless(exchange):
        number = 0
        while not exchange.was_cancelled and not over.is_set():
            number += 1
            exchange.progress(number)
            over.wait(0.02)

    with serving(timeouts=MCPTimeouts(idle=0.25, total=0.6)) as (server, client):
        server.on("tools/call", endless)
        reports = []
        try:
            with pytest.raises(MCPTimedOut, match="did not answer"):
                client.call("echo", on_progress=reports.append)
        finally:
            over.set()
        assert reports
        server.wait_for(server.cancels)
        check_next_call(server, client)


@pytest.mark.parametrize("on_cancel", ["silent", "error", "result"])
def test_whatever_comes_late_is_dropped(on_cancel, caplog):
    """MCP trap 12: late answers, errors with code 0, progress and questions."""

    def late(exchange):
        exchange.until_cancelled()
        exchange.progress(5, token=exchange.id)
        if exchange.era == "legacy":
            form = {"message": "Who?", "requestedSchema": FORM}
            exchange.ask_without_waiting("elicitation/create", form)

    with serving("legacy", fake={"on_cancel": on_cancel}) as (server, client):
        server.on("tools/call", late)
        client.connect()
        error = cancelled(
            "thread",
            lambda token: client.call("echo", token=token, on_progress=lambda _: None),
            lambda: server.wait_for(lambda: server.requests("tools/call")),
        )
        assert isinstance(error, Cancelled)
        check_next_call(server, client)
        until(lambda: not client._client.current._channel.requests._questions)
    assert [
        one for one in caplog.records if one.levelname in ("WARNING", "ERROR")
    ] == []


def test_one_of_ten_parallel_calls_is_cancelled_and_nine_are_answered():
    """MCP trap 13: a cancel concerns one call."""
    gates = [Gate() for _ in range(10)]
    with serving() as (server, client):
        server.on(
            "tools/call", lambda x: x.stop_at(gates[int(x.arguments["text"])]), times=10
        )
        client.connect()
        tokens = [CancelToken() for _ in gates]
        answers = {}

        def call(number):
            try:
                answers[number] = client.call(
                    "echo", {"text": str(number)}, token=tokens[number]
                ).text
            except Cancelled:
                answers[number] = "cancelled"

        def cancel():
            for gate in gates:
                gate.wait_reached()
            tokens[3].cancel()
            until(lambda: 3 in answers)
            for gate in gates:
                gate.open()

        together(cancel, *(lambda n=n: call(n) for n in range(10)))
        expected = {number: str(number) for number in range(10)} | {3: "cancelled"}
        assert answers == expected
        server.wait_for(server.cancels)
        assert len(server.cancels()) == 1
        check_next_call(server, client)


def test_cancel_twice_is_one_cancel():
    """MCP trap 13: the second cancel finds nothing to do."""
    with serving() as (server, client):
        server.on("tools/call", lambda x: x.until_cancelled())
        client.connect()
        token = CancelToken()

        def cancel():
            server.wait_for(lambda: server.requests("tools/call"))
            token.cancel("first")
            token.cancel("second")

        def call():
            with pytest.raises(Cancelled, match="first"):
                client.call("echo", token=token)

        together(call, cancel)
        server.wait_for(server.cancels)
        check_next_call(server, client)
        assert len(server.cancels()) == 1


@pytest.mark.parametrize(
    "rounds", [30, pytest.param(1000, marks=pytest.mark.stress)], ids=str
)
def test_cancel_and_answer_at_the_same_instant(rounds):
    """MCP trap 13: the call is answered or cancelled, and the session goes on."""
    with serving() as (server, client):
        client.connect()
        answered, unstarted = 0, 0
        for _ in range(rounds):
            token, gate = CancelToken(), Gate()
            server.on("tools/call", lambda x, gate=gate: x.stop_at(gate))

            def call(token=token):
                nonlocal answered, unstarted
                try:
                    answered += client.call("echo", token=token).text == "hi"
                except Cancelled as error:
                    unstarted += not error.started

            def race(token=token, gate=gate):
                gate.wait_reached()
                gate.open()
                token.cancel()

            together(call, race)
        check_next_call(server, client)
        assert answered < rounds
        assert not unstarted
        ids = [each.id for each in server.requests("tools/call")]
        assert set(server.cancels()) <= set(ids)
        assert len(set(server.cancels())) == len(server.cancels())


@pytest.mark.parametrize(
    "rounds", [100, pytest.param(1000, marks=pytest.mark.stress)], ids=str
)
def test_cancelled_calls_leak_nothing(rounds):
    """MCP trap 11: no thread, descriptor, pending id or queued byte is left."""
    with serving() as (server, client):
        server.on("tools/call", lambda x: x.until_cancelled(), times=rounds)
        client.connect()
        threads = threading.active_count()
        for number in range(rounds):
            seen = len(server.requests("tools/call"))
            error = cancelled(
                "thread",
                lambda token: client.call("echo", token=token),
                lambda seen=seen: until(
                    lambda: len(server.requests("tools/call")) > seen
                ),
            )
            assert isinstance(error, Cancelled), number
        server.wait_for(lambda: len(server.cancels()) == rounds)
        check_next_call(server, client)
        channel = client._client.current._channel
        assert not channel._writer._queue
        assert not channel.requests._questions
        until(lambda: threading.active_count() <= threads + 1)
        assert (
            server.cancels() == [one.id for one in server.requests("tools/call")][:-1]
        )


def test_a_token_that_is_cancelled_already_sends_nothing():
    """Nothing is started, and nothing is written."""
    with serving() as (server, client):
        client.connect()
        token = CancelToken()
        token.cancel()
        with pytest.raises(Cancelled) as caught:
            client.call("echo", token=token)
        check_next_call(server, client)
        assert len(server.requests("tools/call")) <= 2
        assert caught.value.started or len(server.requests("tools/call")) == 1


def test_a_server_that_ignores_cancels_goes_on_for_others():
    """MCP trap 14: the call ends at once, the next one is served beside the old."""
    gate = Gate()
    with serving(fake={"on_cancel": "result"}) as (server, client):
        server.on("tools/call", lambda x: x.stop_at(gate))
        client.connect()
        error = cancelled(
            "thread", lambda token: client.call("echo", token=token), gate.wait_reached
        )
        assert isinstance(error, Cancelled)
        check_next_call(server, client)
        gate.open()
        check_next_call(server, client)


def test_a_cancel_that_cannot_be_delivered_costs_nothing():
    """MCP trap 15: the server is gone, or its pipe is full; no exception, no delay."""
    with serving() as (server, client):
        server.on("tools/call", lambda x: x.silence())
        client.connect()

        def reached():
            server.wait_for(lambda: server.requests("tools/call"))
            process = go_deaf(server, client)
            channel = client._client.current._channel
            while not channel._writer.has_more:
                channel.send_bytes(b" " * 4000)
            process.close_stdout()

        error = cancelled(
            "thread", lambda token: client.call("echo", token=token), reached
        )
        assert type(error).__name__ in ("Cancelled", "MCPServerLost")
        server.processes[0].wait_ended()
        assert client.call("echo", {"text": "next"}).text == "next"
