"""Messages of any server on a pipe: cut anywhere, out of order, wrong."""

import json
import logging
import os
import threading

import pytest
from support.mcp_stdio import Call, serving
from support.threads import together, until

from syncagent.cancel import CancelToken
from syncagent.exceptions import Cancelled, MCPRequestFailed, MCPServerLost
from syncagent.mcp.stdio.output import LineReader, LineTooLong
from syncagent.mcp.stdio.writer import Outgoing, PipeWriter
from syncagent.testing import ClientRefused, Gate


def text_result(text):
    return {"content": [{"type": "text", "text": text}]}


def test_ids_of_both_sides_may_be_equal():
    """MCP trap 17: the method decides what a message is, never the id."""
    with serving("legacy", roots=["/tmp"]) as (server, client):

        def ask(exchange):
            for _ in range(exchange.id + 1):  # until the ids have met
                exchange.ask("roots/list")
            return text_result("asked")

        server.on("tools/call", ask)
        assert client.call("echo").text == "asked"


@pytest.mark.parametrize("size", [1, 7])
def test_lines_cut_anywhere(size):
    """MCP trap 17: with both line ends, and pieces of a byte."""
    with serving() as (server, client):
        client.connect()
        process = server.processes[0]
        process.piece_size, process.line_end = size, b"\r\n"
        assert client.call("echo", {"text": "é\u2028ß"}).text == "é\u2028ß"


def test_several_messages_in_one_read_and_out_of_order():
    """MCP trap 17: each caller gets its own."""
    gate, exchanges = Gate(), []

    def collect(exchange):
        exchanges.append(exchange)
        if len(exchanges) == 3:
            gate.open()
        exchange.stop_at(gate)
        exchange.silence()

    with serving() as (server, client):
        server.on("tools/call", collect, times=3)
        client.connect()
        calls = [Call(lambda n=n: client.call("echo", {"text": n})) for n in "abc"]
        server.wait_for(lambda: len(exchanges) == 3)
        lines = b""
        for exchange in reversed(exchanges):
            result = {
                "resultType": "complete",
                **text_result(exchange.arguments["text"]),
            }
            message = {"jsonrpc": "2.0", "id": exchange.id, "result": result}
            lines += json.dumps(message).encode() + b"\n"
            exchange.is_answered = True
        server.processes[0].stdout(lines)
        assert [call.ended().value.text for call in calls] == ["a", "b", "c"]


def test_noise_on_the_output_is_skipped_and_told_once(caplog):
    """MCP trap 17: prints, bad JSON, wrong shapes, empty lines, bad UTF-8, batches."""

    def noisy(exchange):
        process = exchange.process
        process.stdout(b"hello, this is a print\n\n\r\n[1, 2]\n42\nnull\n{\n")
        process.stdout(b'{"jsonrpc": "2.0"}\n{"id": 1}\n{"method": 7}\n[]\n')
        process.stdout(b'{"jsonrpc":"2.0","method":"notifications/odd \xff"}\n')
        exchange.notify("notifications/progress", {"progressToken": 10**30})
        exchange.notify("notifications/progress", {"progressToken": [], "progress": 1})
        exchange.send([{"jsonrpc": "2.0", "method": "notifications/unknown"}])
        exchange.send({"jsonrpc": "2.0", "id": None, "error": {"code": 1}})
        exchange.send({"jsonrpc": "2.0", "id": "made-up", "error": "words"})
        exchange.send({"jsonrpc": "2.0", "id": 4.5, "result": {}})

    with serving() as (server, client), caplog.at_level(logging.WARNING):
        server.on("tools/call", noisy)
        assert client.call("echo").text == "hi"
    warnings = [one for one in caplog.records if one.name == "syncagent.mcp"]
    assert len(warnings) == 1
    assert "this is a print" in warnings[0].getMessage()


def test_a_message_that_cannot_be_taken_loses_no_other():
    """MCP trap 17: a number too large for a float, right before the answer."""

    def huge(exchange):
        token = exchange.meta["progressToken"]
        number = "9" * 400
        exchange.process.stdout(
            '{"jsonrpc":"2.0","method":"notifications/progress","params":'
            f'{{"progressToken":{token},"progress":{number}}}}}\n'
        )

    with serving() as (server, client):
        server.on("tools/call", huge)
        reports = []
        assert client.call("echo", on_progress=reports.append).text == "hi"
        assert reports == []


def test_an_answer_in_a_batch_counts():
    """MCP trap 17: servers of 2025-03-26 may send arrays."""

    def batch(exchange):
        answer = {"jsonrpc": "2.0", "id": exchange.id, "result": text_result("batch")}
        exchange.send([{"jsonrpc": "2.0", "method": "notifications/x"}, answer])
        exchange.silence()

    with serving("legacy") as (server, client):
        server.on("tools/call", batch)
        assert client.call("echo").text == "batch"


def test_an_error_whatever_its_shape():
    """MCP trap 17: unknown fields, no message, a wrong code."""
    with serving("legacy") as (server, client):

        def odd(exchange):
            error = {"code": "x", "extra": 1, "data": {"why": "not"}}
            exchange.send({"id": exchange.id, "error": error, "more": [], "jsonrpc": 2})
            exchange.silence()

        server.on("tools/call", odd)
        with pytest.raises(MCPRequestFailed) as caught:
            client.call("echo")
        assert caught.value.data == {"why": "not"}


@pytest.mark.slow
def test_a_line_of_twenty_megabytes():
    """MCP trap 17: large, and below the limit."""
    with serving() as (server, client):
        server.on("tools/call", lambda x: text_result("y" * 20_000_000))
        assert len(client.call("echo").text) == 20_000_000


def test_a_line_without_an_end_ends_the_server():
    """A server that never ends its line is broken; the next call has a new one."""
    reader = LineReader(limit=10)
    assert reader.feed(b"ab\ncd") == [b"ab"]
    assert reader.feed(b"ef\n\n") == [b"cdef"]
    with pytest.raises(LineTooLong):
        reader.feed(b"12345678901")
    reader = LineReader(limit=10)
    reader.feed(b"12345678")
    with pytest.raises(LineTooLong):
        reader.feed(b"901")


@pytest.mark.slow
def test_more_than_the_largest_message_ends_the_server():
    """The limit of a message is 32 MiB."""
    with serving() as (server, client):
        server.on("tools/call", lambda x: x.process.stdout(b"z" * 34_000_000))
        with pytest.raises(MCPServerLost, match="sent a line of more than"):
            client.call("echo")
        assert client.call("echo").text == "hi"


def test_a_ping_is_answered_while_a_call_waits_and_without_one():
    """MCP trap 21: by the thread that reads, at once."""
    with serving("legacy") as (server, client):
        client.connect()
        assert server.ping() == {}
        server.on("tools/call", lambda x: text_result(str(x.ask("ping"))))
        assert client.call("echo").text == "{}"
        assert Call(lambda: client.call("echo")).ended().value.text == "hi"


def test_a_request_of_the_server_that_is_unknown_gets_an_error():
    """Every request of a server is answered."""
    with serving("legacy") as (server, client):
        client.connect()
        with pytest.raises(ClientRefused) as caught:
            server.ask("tasks/do-it")
        assert caught.value.code == -32601


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [40, pytest.param(200, marks=pytest.mark.stress)], ids=str
)
def test_many_threads_on_one_server_with_random_cancels(number):
    """Each call gets its own answer or its own cancel; the session stays whole."""
    with serving() as (server, client):
        client.connect()
        server.on(
            "tools/call",
            lambda x: x.until_cancelled() if x.arguments["text"][0] == "c" else None,
            times=None,
        )
        count = threading.active_count()

        def work(me):
            for turn in range(5):
                word = f"{'c' if (me + turn) % 3 == 0 else 'a'}{me}-{turn}"
                token = CancelToken(timeout=0.05) if word[0] == "c" else CancelToken()
                try:
                    assert client.call("echo", {"text": word}, token=token).text == word
                except Cancelled:
                    assert word[0] == "c"

        together(*(lambda me=me: work(me) for me in range(number)), timeout=120)
        assert client.call("echo", {"text": "after"}).text == "after"
        channel = client._client.current._channel
        assert channel.requests._pending == {}
        until(lambda: not channel._writer.has_more)
        until(lambda: threading.active_count() <= count + 2)
        assert len(server.processes) == 1


# -- the parts -----------------------------------------------------------------------


def test_the_io_thread_is_idle_after_a_write_of_another_thread():
    """It stops waiting for room in the pipe once another thread has written all."""
    with serving() as (_server, client):
        client.connect()
        channel = client._client.current._channel
        channel._poller.watch(channel._input, for_room=True)  # as if it had waited
        until(lambda: is_idle(channel))
        assert client.call("echo").text == "hi"
        until(lambda: is_idle(channel))


def is_idle(channel):
    """True if the I/O thread uses no time for a while."""

    def used():
        clock = f"/proc/self/task/{channel._thread.native_id}/stat"
        with open(clock) as stat:
            return sum(map(int, stat.read().rpartition(")")[2].split()[11:13]))

    before = used()
    threading.Event().wait(0.1)
    return used() - before <= 1


def test_a_message_is_queued_once_however_often_it_is_added():
    """Steps that a signal handler has interrupted are repeated without harm."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with open(reader, "rb") as output, open(writer, "wb", buffering=0) as pipe:
        queue, message = PipeWriter(pipe), Outgoing(b"once")
        queue.add(message)
        queue.add(message)
        queue.write()
        queue.add(message)
        queue.write()
        assert not queue.has_more
        assert not message.take_back()
        queue.close()
        assert output.read() == b"once\n"


def test_a_message_that_found_no_room_can_be_taken_back():
    """It was tried, and nothing of it was written."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with open(reader, "rb") as output, open(writer, "wb", buffering=0) as pipe:
        filled = 0
        while (written := pipe.write(b"x" * 4096)) is not None:
            filled += written
        queue, message = PipeWriter(pipe), Outgoing(b"never")
        queue.add(message)
        queue.write()
        assert queue.has_more
        assert message.take_back()
        output.read(filled)
        queue.write()
        assert not queue.has_more
        queue.close()
        assert output.read() == b""


def test_no_byte_is_written_to_a_pipe_that_was_closed():
    """Its number may be that of another file by then."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with open(reader, "rb") as output, open(writer, "wb", buffering=0) as pipe:
        queue, message = PipeWriter(pipe), Outgoing(b"late")
        with queue._writing:  # another thread writes
            closing = Call(queue.close)
            threading.Event().wait(0.02)
            assert not pipe.closed
        closing.ended()
        assert pipe.closed
        queue.add(message)
        queue.write()
        assert not queue.has_more
        assert message.take_back()
        assert output.read() == b""
