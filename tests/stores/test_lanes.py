"""Threads that talk to a database for others."""

import threading

import pytest
from support.threads import LONG, until

from syncagent.cancel import CancelToken
from syncagent.exceptions import StoreUnavailable
from syncagent.stores.lanes import Lanes
from syncagent.testing import Gate


@pytest.fixture
def cut():
    """Yield the threads that were cut off, in order."""
    return []


@pytest.fixture
def lanes(cut):
    """Yield two threads."""
    lanes = Lanes(2, cut.append)
    yield lanes
    lanes.close(LONG)
    assert not lanes._threads


def begin(work):
    """Do *work* on a thread of its own; return the thread."""
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def perform(lanes, operation):
    """Do *operation* in a lane."""
    return lanes.perform(operation, CancelToken(), LONG)


def test_one_thread_does_what_comes_one_after_the_other(lanes):
    """The thread that was last busy gets the next task, so that others can end."""
    threads = {perform(lanes, threading.get_ident) for _ in range(20)}
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_an_error_is_that_of_the_caller(lanes):
    """The thread goes on."""
    with pytest.raises(ZeroDivisionError):
        perform(lanes, lambda: 1 / 0)
    assert perform(lanes, lambda: 7) == 7


def test_there_are_never_more_threads_and_every_task_is_done(lanes):
    """Tasks that find no thread wait for the first that is free."""
    gate, done = Gate(), []
    callers = [
        begin(lambda: done.append(perform(lanes, gate.stop_here))) for _ in range(2)
    ]
    until(lambda: len(lanes._threads) == 2 and not lanes._idle)
    callers += [
        begin(lambda n=n: done.append(perform(lanes, lambda: n))) for n in range(20)
    ]
    until(lambda: len(lanes._tasks) == 20)
    assert len(lanes._threads) == 2
    gate.open()
    for caller in callers:
        caller.join(LONG)
    assert sorted(each for each in done if each is not None) == list(range(20))
    until(lambda: len(lanes._idle) == len(lanes._threads))


def test_a_cancel_ends_the_wait_and_cuts_nothing(lanes, cut):
    """The operation may still happen; its thread is free afterwards."""
    gate, token = Gate(), CancelToken()
    raised = []

    def call():
        with pytest.raises(StoreUnavailable) as caught:
            lanes.perform(gate.stop_here, token, LONG)
        raised.append(caught)

    caller = begin(call)
    gate.wait_reached()
    token.cancel()
    caller.join(LONG)
    assert raised
    assert not cut
    gate.open()
    assert perform(lanes, lambda: 7) == 7


def test_a_thread_that_takes_too_long_is_cut_off(lanes, cut):
    """Its caller learns that it is not known what happened."""
    gate, threads = Gate(), []

    def block():
        threads.append(threading.get_ident())
        gate.stop_here()

    with pytest.raises(StoreUnavailable, match="not known"):
        lanes.perform(block, CancelToken(), 0.05)
    assert cut == threads
    gate.open()


def test_many_callers_lose_nothing(lanes):
    """However tasks and idle threads meet."""
    counts = []

    def call():
        counts.append(sum(perform(lanes, lambda: 1) for _ in range(200)))

    callers = [begin(call) for _ in range(8)]
    for caller in callers:
        caller.join(LONG)
    assert counts == [200] * 8
