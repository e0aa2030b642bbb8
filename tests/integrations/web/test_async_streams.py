"""A run as a stream on an event loop, which it never blocks."""

import asyncio  # noqa: TID251
import gc
import threading

import pytest
from support.threads import LONG
from support.web.runs import finished, how_it_ended, make_runs, parse, silent, start

from syncagent.integrations.web.asgi import AsyncEventStream, end_runs_with_server
from syncagent.testing import Gate


@pytest.fixture
def runs():
    with make_runs(max_followers=100, max_followers_per_owner=100) as made:
        yield made


def on_loop(coroutine):
    """Run a coroutine on its own loop, and return its result."""
    return asyncio.run(asyncio.wait_for(coroutine, LONG))


async def whole(stream):
    return b"".join([piece async for piece in stream])


def follow(runs, run, **how):
    return AsyncEventStream(runs.follow(run, **how))


def test_the_same_as_for_threads(runs):
    """A loop gets what a thread gets: the same events, with the same ids."""
    run = finished(runs, "Once upon a time")
    expected = parse(b"".join(runs.follow(run)))
    assert parse(on_loop(whole(follow(runs, run)))) == expected


def test_a_run_that_goes_on(runs):
    """A later event wakes the waiting task."""
    gate = Gate()
    run = start(runs, gate, "It was said late.")

    async def follow_it():
        stream = follow(runs, run)
        pieces = [await anext(stream)]
        threading.Timer(0.05, gate.open).start()
        return b"".join([*pieces, *[piece async for piece in stream]])

    events = parse(on_loop(follow_it()))
    assert events[-1][1] == "end"
    assert events[-1][2]["text"] == "It was said late."


def test_one_that_takes_nothing():
    """M2: under ASGI, too, a stream that nothing is taken from ends with its run."""
    with make_runs(slow_seconds=0.1) as runs:
        run = silent(runs)

        async def take_one():
            stream = AsyncEventStream(runs.follow(run, environ={}))
            await anext(stream)
            return stream

        stream = on_loop(take_one())
        assert how_it_ended(run) == ("cancelled", "disconnect")
        stream.close()


def test_waiting_for_events_is_not_slow(runs):
    """M2: a client on a loop that waits for the next event has taken all there are."""
    run = silent(runs)

    async def look():
        inner = runs.follow(run)
        stream = AsyncEventStream(inner)
        while True:
            next_chunk = asyncio.ensure_future(anext(stream))
            await asyncio.wait([next_chunk], timeout=0.1)
            if not next_chunk.done():
                break
            assert inner.sent_at is not None  # the server has a chunk to send
        assert inner.sent_at is None
        next_chunk.cancel()

    on_loop(look())


def test_many_on_one_loop(runs):
    """A hundred wait on one loop, and no thread waits for any of them."""
    gate = Gate()
    run = start(runs, gate, "Hello, all.")
    gate.wait_reached()
    before = threading.active_count()
    begun = []

    async def follow_it():
        stream = follow(runs, run)
        pieces = [await anext(stream)]
        begun.append(1)
        if len(begun) == 100:
            assert threading.active_count() == before
            gate.open()
        return b"".join([*pieces, *[piece async for piece in stream]])

    async def crowd():
        return await asyncio.gather(*(follow_it() for _ in range(100)))

    for text in on_loop(crowd()):
        assert parse(text)[-1][2]["text"] == "Hello, all."


def test_heartbeats(runs):
    """In silence a comment comes again and again, as bytes."""
    with make_runs(heartbeat=0.01) as quick:
        run = silent(quick)

        async def listen():
            stream = follow(quick, run)
            found = [await anext(stream) for _ in range(6)]
            stream.close()
            return found

        assert on_loop(listen()).count(b": still here\n\n") >= 2
        assert how_it_ended(run) == ("cancelled", "disconnect")


def test_a_task_that_is_cancelled(runs):
    """Issue 8: a server that cancels the task of a client ends its run."""
    run = silent(runs)

    async def leave():
        task = asyncio.ensure_future(whole(follow(runs, run)))
        while run.handle.event_count == 0 or not run._followers:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    on_loop(leave())
    assert how_it_ended(run) == ("cancelled", "disconnect")


@pytest.mark.parametrize("has_begun", [False, True])
def test_one_that_is_dropped(runs, has_begun):
    """Issue 8: a stream that is dropped closes itself."""
    run = silent(runs)

    async def drop():
        stream = follow(runs, run)
        if has_begun:
            await anext(stream)

    on_loop(drop())
    gc.collect()
    assert how_it_ended(run) == ("cancelled", "disconnect")


def test_closed_from_another_thread(runs):
    """The task that waits for a stream ends when another thread closes it."""
    run = silent(runs)

    async def listen():
        stream = follow(runs, run)
        threading.Timer(0.05, stream.close).start()
        return await whole(stream)

    assert next(name for _, name, _ in parse(on_loop(listen()))) == "run"
    assert how_it_ended(run) == ("cancelled", "disconnect")


def test_a_loop_that_is_gone(runs):
    """A run continues after the loop of its follower was closed."""
    gate = Gate()
    run = start(runs, gate, "It goes on.", on_disconnect="detach")
    loop = asyncio.new_event_loop()
    stream = follow(runs, run)
    loop.run_until_complete(anext(stream))
    waiting = loop.create_task(whole(stream))
    loop.run_until_complete(asyncio.sleep(0.05))
    loop.close()
    gate.open()
    assert run.handle.result(LONG).text == "It goes on."
    waiting._log_destroy_pending = False
    stream.close()


def test_an_application_is_called_as_it_is():
    """end_runs_with_server() changes nothing else."""
    heard = []

    async def app(scope, receive, send):
        heard.append((scope, receive, send))

    on_loop_of_a_thread = threading.Thread(
        target=lambda: on_loop(end_runs_with_server(app)({"type": "http"}, 2, 3))
    )
    on_loop_of_a_thread.start()
    on_loop_of_a_thread.join(LONG)
    assert heard == [({"type": "http"}, 2, 3)]


@pytest.mark.parametrize("knows_it", [True, False])
def test_runs_end_when_the_server_says_so(runs, knows_it):
    """The lifespan of a server ends runs, also if the application does not know it."""
    run = silent(runs)
    stages = ["startup", "shutdown"]
    said = []

    async def receive():
        return {"type": f"lifespan.{stages.pop(0)}"}

    async def send(message):
        said.append(message["type"])

    async def app(scope, receive, send):
        if not knows_it:
            raise ValueError("only HTTP")
        for _ in range(2):
            message = await receive()
            await send({"type": message["type"] + ".complete"})

    def serve():
        on_loop(end_runs_with_server(app)({"type": "lifespan"}, receive, send))

    server = threading.Thread(target=serve)
    server.start()
    server.join(LONG)
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert how_it_ended(run)[1] == "shutdown"
