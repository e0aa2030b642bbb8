"""Bytes on a worker's connection that are not the result of its call."""

import os
import pickle
import random
import signal
import struct
import time
from itertools import pairwise

import pytest
import worker_jobs as jobs
from calling import SOON, Called, run
from hypothesis import given
from hypothesis import strategies as st
from support.tools import agent_for, outcomes
from support.tools import call as tool_call
from worker_jobs import Started, is_gone

from syncagent import ConfigurationError, tool
from syncagent.cancel import CancelToken
from syncagent.tools.processes.call import (
    RemoteError,
    WorkerKilled,
    WorkerOutOfStep,
    call,
    find_target,
)
from syncagent.tools.processes.channel import (
    FrameReader,
    OutOfStep,
    frame_parts,
    new_number,
)

NUMBER = bytes(range(16))
HUGE = struct.pack("!QQ", 1 << 62, 1 << 62)
#: Bytes that are not the beginning of any frame.
GARBAGE = {
    "text": b"Hello, this is a line of text.\n",
    "one byte": b"x",
    "nothing but zeros": bytes(100),
    "a frame of another call": b"".join(frame_parts(b"r", NUMBER, b"data")),
    "much": b"y" * 1_000_000,
}


# -- the reader --------------------------------------------------------------------


def read(pieces, limit=1 << 30):
    """Return the frames of some pieces of bytes."""
    reader, frames = FrameReader(NUMBER, limit), []
    for piece in pieces:
        reader.feed(piece)
        while (frame := reader.next()) is not None:
            frames.append((frame[0], bytes(frame[1])))
    return frames


def split(data, positions):
    """Cut *data* at some positions."""
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in positions)})
    return [data[a:b] for a, b in pairwise(places)]


frames = st.lists(
    st.tuples(st.sampled_from([b"p", b"q", b"r", b"u", b"e", b"n"]), st.binary()),
    max_size=4,
)
places = st.lists(st.integers(0, 10_000), max_size=6)


def encoded(frames):
    return b"".join(b"".join(frame_parts(k, NUMBER, p)) for k, p in frames)


@given(frames, places)
def test_whole_frames(frames, places):
    """M4: frames come out as they went in, however they were cut."""
    assert read(split(encoded(frames), places)) == frames


@given(frames, st.integers(0, 10_000), st.binary(min_size=1), places)
def test_foreign_bytes_anywhere(frames, position, foreign, places):
    """M4, 9: with foreign bytes inside, no frame comes out that did not go in."""
    whole = encoded(frames)
    position %= len(whole) + 1
    reader, seen = FrameReader(NUMBER, 1 << 30), []
    try:
        for piece in split(whole[:position] + foreign + whole[position:], places):
            reader.feed(piece)
            while (frame := reader.next()) is not None:
                seen.append((frame[0], bytes(frame[1])))
    except OutOfStep:
        pass
    assert seen == frames[: len(seen)]


@given(st.lists(st.binary(), max_size=5))
def test_nothing_but_foreign_bytes(pieces):
    """M4: random bytes are an error of ours, or the beginning of a frame."""
    try:
        assert read(pieces) == []
    except OutOfStep:
        pass


@pytest.mark.parametrize("cut", [33, 1])
def test_a_length_is_not_believed(cut):
    """M4: a length beyond the limit is refused before anything is read."""
    header = b"r" + NUMBER + HUGE
    with pytest.raises(OutOfStep, match=r"announced 4,611,686,018,427,387,904 bytes"):
        read([header[:cut], header[cut:]])


def test_numbers():
    """S2: nobody can guess the number of another call."""
    assert len({new_number() for _ in range(1000)}) == 1000


# -- real workers ------------------------------------------------------------------


def call_again():
    """Check that a later call is right, and that the next one is not wrong."""
    try:
        assert run(jobs.add, 1) == 1
    except WorkerOutOfStep:  # something came only then; what the call did is unknown
        pass
    assert run(jobs.add, 2) == 2


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
def test_garbage(data):
    """M4: it is told what was sent, and another worker makes the next call."""
    worker = run(jobs.pid)
    with pytest.raises(WorkerOutOfStep, match=r"job.* is out of step: .*not a frame"):
        run(jobs.garble, data)
    assert is_gone(worker)
    assert run(jobs.add, 1) == 1


def test_garbage_of_a_function_that_runs_on(mail):
    """M4: a worker is out of step at the first wrong byte, not at the end."""
    started = Started(mail, lambda: run(jobs.garble_and_wait, mail.path, b"x"))
    assert isinstance(started.end(), WorkerOutOfStep)
    assert is_gone(started.pids[0])


def test_garbage_inside_of_a_frame():
    """M4: wrong bytes in a result are noticed, wherever they are."""
    for position in (0, 1, 17, 20, 25, 32, 33, 100, 255):
        with pytest.raises(WorkerOutOfStep):
            run(jobs.garble_inside, b"stray", position)


def test_more_than_a_result():
    """M4: a second result is neither taken nor left for the next call."""
    worker = run(jobs.pid)
    assert run(jobs.send_frame, b"r", pickle.dumps("first")) == "first"
    call_again()
    assert is_gone(worker)


@pytest.mark.parametrize(
    ("kind", "payload", "error"),
    [
        (b"p", b"no pickle", WorkerOutOfStep),
        (b"q", b"", WorkerOutOfStep),
        (b"r", b"\x80\x05\x8e\xff\xff\xff\xff\xff\xff\xff\x0f.", TypeError),
        (b"r", b"", TypeError),
        (b"e", b"no pickle", WorkerOutOfStep),
        (b"e", pickle.dumps(7), WorkerOutOfStep),
        (b"e", pickle.dumps((1, 2)), WorkerOutOfStep),
        (b"e", pickle.dumps((pickle.dumps(7), "Kind", "text", "")), RemoteError),
        (b"u", b"\xff\xfe", TypeError),
        (b"n", b"\xff\xfe", ConfigurationError),
    ],
)
def test_frames_that_make_no_sense(kind, payload, error):
    """M4: a payload that cannot be read is an error of the call, whatever it is."""
    with pytest.raises(error):
        run(jobs.send_frame, kind, payload)
    call_again()


@tool(isolation="process")
def garbling() -> str:
    """Write where it should not."""
    jobs.write_all(b"r" + bytes(16) + HUGE)
    return "done"


def test_the_run_goes_on():
    """M4, 4: for a run it is a failed tool, and not its end."""
    result = agent_for(garbling).run("Do it.")
    assert outcomes(result) == ["failed"]
    assert result.stop_reason == "end_turn"
    assert "out of step" in result.tool_outcomes[0].error


def fuzz(seed):
    """Call a function that writes random bytes, at a random place."""
    randomly = random.Random(seed)
    data = randomly.randbytes(randomly.choice((1, 9, 33, 60, 300_000)))
    if randomly.random() < 0.5:  # a valid frame in front, or a part of it
        kind = randomly.choice((b"p", b"q", b"e", b"r", b"x"))
        job, args = jobs.send_frame, (kind, data)
    elif randomly.random() < 0.5:
        job, args = jobs.garble, (data,)
    else:
        job, args = jobs.garble_inside, (data, randomly.randrange(265))
    try:
        run(job, *args, kill_on=[CancelToken(timeout=20)])
    except (WorkerOutOfStep, TypeError):
        pass
    call_again()


@pytest.mark.slow
def test_fuzz():
    """M4: whatever a worker writes, its call ends, and the next one is right."""
    for seed in range(25):
        fuzz(seed)


@pytest.mark.stress
def test_fuzz_for_long():
    """M4: the same, with many more kinds of bytes."""
    for seed in range(1000, 3000):
        fuzz(seed)


# -- cancels in the middle of a frame ----------------------------------------------


@pytest.mark.parametrize("has_daemon", [False, True])
def test_kill_in_the_middle_of_a_result(mail, has_daemon):
    """M3, 2: though a process of another session holds the connection open."""
    started = Called(mail, jobs.send_half, has_daemon=has_daemon)
    before = time.monotonic()
    started.token.cancel()
    assert isinstance(started.end(), WorkerKilled)
    assert time.monotonic() - before < 5 * SOON
    assert is_gone(started.pids[0])
    if has_daemon:
        os.kill(int(started.pids[1]), signal.SIGKILL)


@pytest.mark.parametrize("has_daemon", [False, True])
def test_kill_in_the_middle_of_the_arguments(mail, has_daemon):
    """M3, 2: the same if it is the worker that does not read."""
    daemon = run(jobs.leave_daemon) if has_daemon else None
    worker, token = run(jobs.pid), CancelToken(timeout=0.3)
    os.kill(worker, signal.SIGSTOP)
    before = time.monotonic()
    with pytest.raises(WorkerKilled) as error:
        run(jobs.size_of, b"x" * 20_000_000, kill_on=[token])
    assert not error.value.started
    assert time.monotonic() - before < 5 * SOON
    if has_daemon:
        os.kill(daemon, signal.SIGKILL)


def test_death_in_the_middle_of_a_result(mail):
    """M3: a worker that dies by itself ends the wait as well."""
    started = Called(mail, jobs.send_half, has_daemon=True)
    os.kill(int(started.pids[0]), signal.SIGKILL)
    assert "SIGKILL" in str(started.end())
    os.kill(int(started.pids[1]), signal.SIGKILL)


@pytest.mark.stress
def test_kills_anywhere_in_large_transfers():
    """M3, 2: kills at random moments of large arguments and results."""
    randomly, data = random.Random(3), b"x" * 50_000_000
    for number in range(100):
        daemon = run(jobs.leave_daemon)
        token = CancelToken(timeout=randomly.uniform(0.001, 0.15))
        before = time.monotonic()
        try:
            if number % 2:
                assert run(jobs.size_of, data, kill_on=[token]) == len(data)
            else:
                assert len(run(jobs.make, len(data), kill_on=[token])) == len(data)
        except WorkerKilled:
            assert time.monotonic() - before < 5 * SOON
        os.kill(daemon, signal.SIGKILL)


# -- large results -----------------------------------------------------------------


def test_a_result_that_is_too_large():
    """M4: the message says how large it may be; the worker is kept."""
    worker = run(jobs.pid)
    for limit, size in ((1000, 1001), (10, 100), (3_000_000, 5_000_000)):
        with pytest.raises(ValueError, match=rf"max_result_bytes is {limit:,}; return"):
            call(
                find_target(jobs.make), (size,), {}, limit=limit,
                context=None, kill_on=(), serve=print,
            )  # fmt: skip
    assert run(jobs.pid) == worker


@tool(isolation="process", max_result_bytes=1000)
def large(fails: bool) -> str:
    """Return, or raise, much."""
    if fails:
        raise ValueError("x" * 100_000)
    return "x" * 100_000


@pytest.mark.parametrize("fails", [False, True])
def test_a_tool_whose_result_is_too_large(fails):
    """M4: an error of the tool, which the model is told."""
    result = agent_for(large, calls=[tool_call("large", {"fails": fails})]).run(
        "Do it."
    )
    assert outcomes(result) == ["failed"]
    said = "x" * 100 if fails else "max_result_bytes is 1,000"
    assert said in result.tool_outcomes[0].error
