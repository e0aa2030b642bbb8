"""User callbacks: promptly, in order, once, and never in anybody's way."""

import contextvars
import gc
import logging
import threading
import weakref

import pytest
from support.threads import LONG, meanwhile, together

from syncagent import CancelToken
from syncagent.cancel import Alarm, threads
from syncagent.cancel.threads import CallbackThread, Timer
from syncagent.testing import FakeClock, Gate


def flush():
    """Wait until everything that was handed to the callback thread before has run."""
    done = threading.Event()
    token = CancelToken()
    token.on_cancel(done.set)
    token.cancel()
    assert done.wait(LONG)


def test_callbacks_run_in_order_on_the_cancel_thread():
    """They run one after the other, on the SDK's own thread, not the canceller's."""
    token = CancelToken()
    seen = []
    for number in range(50):
        token.on_cancel(
            lambda n=number: seen.append((n, threading.current_thread().name))
        )
    token.cancel()
    flush()
    assert seen == [(number, "syncagent-cancel") for number in range(50)]


def test_callbacks_run_once():
    """However many threads cancel, however often, a callback runs once."""
    token = CancelToken()
    seen = []
    token.on_cancel(lambda: seen.append(1))
    together(*[token.cancel] * 20)
    token.cancel()
    flush()
    assert seen == [1]


def test_registered_late_runs_at_once():
    """On a cancelled token a callback runs straight away."""
    token = CancelToken()
    token.cancel()
    called = threading.Event()
    token.on_cancel(called.set)
    assert called.wait(LONG)


def test_closed_registration_never_runs():
    """What was taken back before the cancel is not called, and close() says so."""
    token = CancelToken()
    seen = []
    registration = token.on_cancel(lambda: seen.append(1))
    assert registration.close() is True
    assert registration.close() is True
    token.cancel()
    flush()
    assert seen == []
    assert not token._generation.links


def test_registration_is_a_context_manager():
    """At the end of the block the callback is taken back."""
    token = CancelToken()
    seen = []
    with token.on_cancel(lambda: seen.append(1)):
        pass
    token.cancel()
    flush()
    assert seen == []


def test_taken_back_after_the_cancel_but_before_its_turn():
    """close() holds even when the cancel came first, as long as it has not begun."""
    token = CancelToken()
    gate = Gate()
    seen = []
    token.on_cancel(gate.stop_here)
    registration = token.on_cancel(lambda: seen.append(1))
    token.cancel()
    gate.wait_reached()
    assert registration.close() is True
    gate.open()
    flush()
    assert seen == []


@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize("way", ["finish", "with"])
def test_finished_after_the_cancel_but_before_its_turn(way, is_reset):
    """S4: finish(), and the end of a block, lose no callback whose cancel has come."""
    token, gate, seen = CancelToken(), Gate(), []
    token.on_cancel(gate.stop_here)
    registration = token.on_cancel(lambda: seen.append(1))

    def end():
        if way == "with":
            with registration:
                pass
        else:
            registration.finish()
        seen.append("over")

    token.cancel()
    gate.wait_reached()
    if is_reset:
        token.reset()
    together(end, lambda: threading.Timer(0.1, gate.open).start())
    assert seen == [1, "over"]


def test_finished_before_the_cancel():
    """finish() takes a callback back that no cancel has reached, and does so twice."""
    token, seen = CancelToken(), []
    registration = token.on_cancel(lambda: seen.append(1))
    registration.finish()
    token.cancel()
    registration.finish()
    flush()
    assert seen == []


def test_close_does_not_wait_for_a_running_callback():
    """close() from anywhere, the callback itself too, returns and says too late."""
    token = CancelToken()
    answers, registrations = [], []
    registrations.append(
        token.on_cancel(lambda: answers.append(registrations[0].close()))
    )
    token.cancel()
    flush()
    assert answers == [False]


def test_one_that_raises_is_logged_and_the_next_runs(caplog):
    """An exception in a callback is a log line, whatever its class."""
    token = CancelToken()
    called = threading.Event()
    token.on_cancel(lambda: 1 / 0)
    token.on_cancel(lambda: exec("raise SystemExit"))
    token.on_cancel(called.set)
    with caplog.at_level(logging.ERROR, "syncagent.cancel"):
        token.cancel()
        assert called.wait(LONG)
    errors = [record.exc_info[0] for record in caplog.records]
    assert errors == [ZeroDivisionError, SystemExit]
    assert "lambda" in caplog.text


def leave_behind(gate):
    """Cancel a token with a callback stuck at *gate*; return when the next has run."""
    token = CancelToken()
    called = threading.Event()
    token.on_cancel(gate.stop_here)
    token.on_cancel(called.set)
    with FakeClock() as clock:
        token.cancel()
        gate.wait_reached()
        assert not called.is_set()
        for _ in range(1000):  # until the watch, set in real time, is due as well
            clock.advance(2)
            if called.wait(0.01):
                return
    raise AssertionError("the next callback did not run")


def test_one_that_hangs_is_reported_and_left_behind(caplog):
    """A stuck callback is named in the log; the others go on on a new thread."""
    gate = Gate()
    reported = threading.Event()
    caplog.handler.addFilter(lambda record: reported.set() or True)
    leave_behind(gate)
    assert reported.wait(LONG)
    gate.open()
    flush()
    assert "stop_here" in caplog.text
    assert "has not returned" in caplog.text


def test_a_log_that_hangs_holds_up_nobody():
    """A handler that blocks keeps neither deadlines nor callbacks from coming."""
    gate, log = Gate(), Gate()
    handler = logging.Handler()
    handler.emit = lambda record: log.stop_here()
    logger = logging.getLogger("syncagent.cancel")
    logger.addHandler(handler)
    try:
        leave_behind(gate)
        log.wait_reached()
        token = CancelToken()
        alarm = Alarm(token)
        alarm.set(0.01, "late")
        assert token.wait(LONG)
        # Those behind the report go on, too, once it counts as stuck.
        with FakeClock() as clock, meanwhile(flush) as flushing:
            while flushing.is_alive():
                clock.advance(2)
                flushing.join(0.01)
    finally:
        logger.removeHandler(handler)
        gate.open()
        log.open()
    flush()


def test_a_stuck_one_that_returns_ends_its_thread():
    """Promise 7: the thread of a callback that was left behind ends with it."""
    gate = Gate()
    leave_behind(gate)
    stuck = [t for t in threading.enumerate() if t.name == "syncagent-cancel-stuck"]
    gate.open()
    for thread in stuck:
        thread.join(LONG)
    assert len(stuck) == 1
    assert not stuck[0].is_alive()


def test_cancel_never_waits_for_a_callback():
    """Promise 1: cancel() returns while the callback has not even begun."""
    token = CancelToken()
    gate = Gate()
    token.on_cancel(gate.stop_here)
    token.cancel()
    gate.wait_reached()
    gate.open()
    flush()


def test_a_callback_may_cancel_and_register_on_its_own_token():
    """Promise 1: cancel() in a callback of the same token is nothing special."""
    token = CancelToken()
    answers = []
    token.on_cancel(lambda: answers.append(token.cancel("again")))
    token.on_cancel(lambda: token.on_cancel(lambda: answers.append("late")))
    token.cancel("first")
    flush()
    flush()
    assert answers == [False, "late"]
    assert token.reason == "first"


def test_callbacks_see_the_context_of_their_registrar():
    """Context variables are those of the code that registered, as for a tool."""
    variable = contextvars.ContextVar("variable", default="none")
    token = CancelToken()
    seen = []
    variable.set("mine")
    token.on_cancel(lambda: seen.append(variable.get()))
    variable.set("later")
    token.cancel()
    flush()
    assert seen == ["mine"]


def test_reset_drops_callbacks():
    """After reset() the callbacks from before are gone for good."""
    token = CancelToken()
    seen = []
    registration = token.on_cancel(lambda: seen.append(1))
    token.reset()
    token.cancel()
    flush()
    assert seen == []
    assert registration.close() is True


def test_dropped_token_takes_its_callbacks_along():
    """A registration keeps neither its token nor, after that, its callback alive."""

    class Callback:
        def __call__(self):
            pass

    token = CancelToken()
    callback = Callback()
    ref = weakref.ref(callback)
    token.on_cancel(callback)
    del token, callback
    gc.collect()
    assert ref() is None


def test_a_kept_registration_keeps_its_token():
    """Whoever holds the registration is told, though nobody holds the token."""
    parent, called = CancelToken(), threading.Event()
    registration = parent.child().on_cancel(called.set)
    gc.collect()
    parent.cancel()
    assert called.wait(LONG)
    assert registration.close() is False


def test_the_end_of_the_block_waits_for_a_callback_that_has_begun():
    """After the block, what the callback interrupts is nobody's but the next user's."""
    token, gate, over = CancelToken(), Gate(), []

    def callback():
        gate.stop_here()
        over.append("callback")

    def use():
        with token.on_cancel(callback):
            token.wait(LONG)
            gate.wait_reached()
            threading.Timer(0.05, gate.open).start()
        over.append("block")

    together(use, token.cancel)
    assert over == ["callback", "block"]


def test_a_callback_that_cannot_even_be_named(caplog):
    """A callback that raises and has a broken repr is logged all the same."""

    class Broken:
        def __call__(self):
            raise OSError("gone")

        def __repr__(self):
            raise ValueError("detached")

    token = CancelToken()
    token.on_cancel(Broken())
    token.cancel()
    flush()
    assert "of type Broken" in caplog.text


def test_delivered_though_no_thread_can_be_started_to_watch():
    """At the end of the interpreter a callback is unwatched, but it runs."""

    class NoTimer(Timer):
        def ensure_thread(self):
            raise RuntimeError("can't create new thread at interpreter shutdown")

    ran = []

    class Job:
        run = staticmethod(lambda: ran.append(1))

    CallbackThread(NoTimer(print))._run(Job())
    assert ran == [1]


@pytest.mark.parametrize("callback", [None, 7, "close"])
def test_what_is_not_callable_is_refused(callback):
    """on_cancel() names what it cannot call."""
    with pytest.raises(TypeError, match=r"on_cancel\(\).*" + repr(callback)):
        CancelToken().on_cancel(callback)


def test_first_use_by_many_threads_makes_one_thread():
    """The cancel thread is made once, by the first caller."""
    callbacks = threads.Services().callbacks
    together(*[callbacks.ensure_thread] * 20)
    made = [t for t in threading.enumerate() if t._target == callbacks._work]
    assert len(made) == 1
    callbacks._thread = None  # tell it to end ...
    callbacks.submit(type("Job", (), {"run": print, "describe": str})())
    made[0].join(LONG)
