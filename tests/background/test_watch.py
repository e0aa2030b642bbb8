"""A watch: any number wait, anybody wakes them, and no wake-up is lost."""

import os
import signal
import sys
import threading

import pytest
from support.handles import switching_often
from support.threads import LONG, meanwhile, together, until

from syncagent.asking.inbox import Inbox
from syncagent.asking.questions import OpenQuestions
from syncagent.cancel import CancelToken, Watch
from syncagent.exceptions import InterruptOver
from syncagent.interrupts import AwaitingInput
from syncagent.messages import UserMessage
from syncagent.testing import FakeClock


def said(inbox):
    """Return what is in there, in words."""
    return [message.content[0].text for message in inbox.messages]


def words(number):
    return UserMessage.of(f"n{number}")


# -- a watch -----------------------------------------------------------------------


def test_what_is_so_already_is_not_waited_for():
    """Nor is the token looked at, nor the time."""
    token = CancelToken()
    token.cancel()
    assert Watch().wait(lambda: True, token, until=0.0)


def test_a_wait_ends_with_the_token():
    """Promise 2: at once, and it says that it is not so."""
    watch, token = Watch(), CancelToken()
    with meanwhile(lambda: (until(lambda: watch.bells), token.cancel())):
        assert not watch.wait(lambda: False, token)
    assert not watch.wait(lambda: False, token)
    assert not watch.bells
    assert not token._current().links


@pytest.mark.parametrize("is_own", [True, False])
def test_a_wait_ends_in_time(is_own):
    """By its own limit, or by the token's deadline."""
    with FakeClock() as clock:
        watch = Watch()
        token = CancelToken() if is_own else CancelToken(5.0)
        end = clock.now() + 5.0 if is_own else None
        with meanwhile(lambda: (until(lambda: watch.bells), clock.advance(6.0))):
            assert not watch.wait(lambda: False, token, end)
        assert not watch.bells


def test_what_looks_may_raise():
    """It is raised where one waits, and nothing is left of the wait."""
    watch, looks = Watch(), []

    def look():
        looks.append(1)
        if len(looks) == 3:
            raise KeyError("look")
        return False

    with meanwhile(lambda: (until(lambda: len(looks) == 2), watch.wake())):
        with pytest.raises(KeyError):
            watch.wait(look, CancelToken())
    assert not watch.bells


@pytest.mark.parametrize("interval", [1e-6, 0.005, 0.05])
def test_no_wake_up_is_lost(interval):
    """Threads that pass a number round, each waiting for its own turn."""
    before = sys.getswitchinterval()
    watch, turn, rounds, size = Watch(), [0], 200, 4

    def play(me):
        for number in range(rounds):
            mine = number * size + me
            assert watch.wait(lambda mine=mine: turn[0] == mine, CancelToken(), None)
            turn[0] += 1
            watch.wake()

    sys.setswitchinterval(interval)
    try:
        together(*[lambda me=me: play(me) for me in range(size)])
    finally:
        sys.setswitchinterval(before)
    assert turn == [rounds * size]


def test_it_is_woken_in_a_signal_handler_on_the_thread_that_waits():
    """Waking takes no lock, and one may wait in the handler itself."""
    watch, is_so = Watch(), []

    def handle(*_):
        is_so.append(1)
        watch.wake()
        assert watch.wait(lambda: bool(is_so), CancelToken())

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with meanwhile(
            lambda: (
                until(lambda: watch.bells),
                os.kill(os.getpid(), signal.SIGUSR1),
            )
        ):
            assert watch.wait(lambda: bool(is_so), CancelToken())
    finally:
        signal.signal(signal.SIGUSR1, before)


# -- an inbox ----------------------------------------------------------------------


def test_an_inbox_gives_all_in_order_once():
    """As they are, or as one message."""
    inbox = Inbox()
    for number in range(3):
        assert inbox.put(words(number))
    assert said(inbox) == ["n0", "n1", "n2"]
    assert [each.content[0].text for each in inbox.take()] == ["n0", "n1", "n2"]
    assert (inbox.take(), inbox.take_as_one(), inbox.messages) == ([], None, ())
    inbox.put(words(3))
    inbox.put(words(4))
    joined = inbox.take_as_one((words(2),))
    assert [block.text for block in joined.content] == ["n2", "n3", "n4"]
    assert inbox.take_as_one((words(5),)) is None


def test_a_closed_inbox_refuses_and_one_with_something_in_it_does_not_close():
    """close_if_empty() is for a handle without work, close() for one that ends."""
    inbox = Inbox()
    inbox.put(words(0))
    assert not inbox.close_if_empty()
    assert inbox.put(words(1))
    inbox.close()
    assert not inbox.put(words(2))
    assert said(inbox) == ["n0", "n1"]
    inbox.take()
    assert inbox.close_if_empty()
    assert not inbox.put(words(3))
    assert inbox.messages == ()


def test_a_wait_for_input_ends_with_input_or_the_token():
    """Whichever comes first; what was taken meanwhile is not waited for again."""
    inbox, token = Inbox(), CancelToken()
    with meanwhile(lambda: inbox.put(words(0))):
        assert inbox.wait(token)
    inbox.take()
    with meanwhile(lambda: token.cancel()):
        assert not inbox.wait(token)
    inbox.put(words(1))
    assert inbox.wait(token)


def test_what_was_put_is_taken_or_was_refused():
    """Against an inbox that closes as soon as it is empty, as that of a handle."""
    with switching_often():
        for _ in range(200):
            inbox, put, taken = Inbox(), [], []
            is_over = threading.Event()

            def talk(name, inbox=inbox, put=put, is_over=is_over):
                for number in range(20):
                    message = UserMessage.of(f"{name}{number}")
                    if inbox.put(message):
                        put.append(message)
                    elif is_over.is_set():
                        return

            def serve(inbox=inbox, taken=taken, is_over=is_over):
                while True:
                    taken += inbox.take()
                    if inbox.close_if_empty():
                        is_over.set()
                        return

            together(lambda: talk("a"), lambda: talk("b"), serve, timeout=LONG)
            assert sorted(map(str, taken)) == sorted(map(str, put))


# -- a desk ------------------------------------------------------------------------


def test_an_answer_at_the_moment_in_which_a_question_is_dropped():
    """It counts, or it is told that this is over; never that no open question."""
    counted = []

    def drop(desk):
        for number in range(100):
            desk.drop(f"input:{number}")

    def answer(desk):
        for number in range(100):
            try:
                desk.answer(f"input:{number}", "words")
                counted.append(number)
            except InterruptOver:
                pass

    with switching_often():
        for _ in range(100):
            desk = OpenQuestions()
            for number in range(100):
                asked = AwaitingInput(f"input:{number}", f"call_{number}", "ask", "?")
                desk.add(asked, CancelToken(), str)
            together(lambda desk=desk: drop(desk), lambda desk=desk: answer(desk))
            assert desk.open == ()
    assert counted
