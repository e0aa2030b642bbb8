"""The token by itself: cancel, look, wait."""

import copy
import pickle
import signal
import threading
from decimal import Decimal

import pytest
from support.threads import LONG, together

from syncagent import Cancelled, CancelToken
from syncagent.cancel import CancelReason
from syncagent.testing import Gate


def test_new_token_is_live():
    """A new token is not cancelled and says so everywhere."""
    token = CancelToken()
    token.checkpoint()
    assert not token.cancelled
    assert (token.reason, token.origin, token.remaining()) == (None, None, None)
    assert not token.wait(0)


def test_first_reason_wins():
    """Only the first cancel returns true, and its reason and origin stay."""
    token = CancelToken()
    assert token.cancel("client left", "disconnect")
    assert not token.cancel("too late", "user")
    assert token.cancelled
    assert token.reason == "client left"
    assert token.origin == "disconnect"


def test_checkpoint_raises_every_time():
    """A cancelled token stays cancelled: each checkpoint raises, with the reason."""
    token = CancelToken()
    token.cancel("enough", origin="limit")
    for _ in range(2):
        with pytest.raises(Cancelled, match=r"limit.*enough") as caught:
            token.checkpoint()
        assert (caught.value.reason, caught.value.origin) == ("enough", "limit")


def test_cancelled_is_no_exception():
    """``except Exception`` in somebody's tool does not swallow the end of its run."""
    assert not issubclass(Cancelled, Exception)


def test_cancel_wakes_every_waiter():
    """Promise 2: all threads that wait on a token go on when it is cancelled."""
    token = CancelToken()
    gates = [Gate() for _ in range(10)]

    def wait(gate):
        gate.open()
        gate.stop_here()
        assert token.wait(LONG)

    def cancel():
        for gate in gates:
            gate.wait_reached()
        token.cancel()

    together(cancel, *(lambda gate=gate: wait(gate) for gate in gates))


def test_wait_ends_at_its_timeout():
    """A wait that nobody cancels ends by itself and says false."""
    assert CancelToken().wait(0.001) is False


def test_wait_on_cancelled_token_returns_at_once():
    """A wait that begins after the cancel does not block."""
    token = CancelToken()
    token.cancel()
    assert token.wait() is True


def test_waits_leave_nothing_on_the_token():
    """Promise 7: after a wait the token does not remember it."""
    token = CancelToken()
    for _ in range(3):
        token.wait(0)
        token.wait(0.0001)
    assert not token._generation.links


def test_sleep_is_cut_short():
    """Promise 2: sleep() raises as soon as the token is cancelled."""
    token = CancelToken()
    timer = threading.Timer(0.01, token.cancel)
    timer.start()
    with pytest.raises(Cancelled):
        token.sleep(LONG)
    timer.join(LONG)


def test_sleep_that_is_not_cancelled_just_returns():
    """sleep() is a sleep."""
    assert CancelToken().sleep(0.001) is None


def test_exception_out_of_a_wait_leaves_nothing():
    """What a signal handler raises ends the wait, and nothing of it stays."""
    token = CancelToken()

    def handle(signum, frame):
        raise ZeroDivisionError

    before = signal.signal(signal.SIGUSR1, handle)
    main = threading.main_thread().ident
    timer = threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(ZeroDivisionError):
            token.wait(LONG)
    finally:
        signal.signal(signal.SIGUSR1, before)
        timer.join(LONG)
    assert not token._generation.links


def test_background_request_is_no_cancel():
    """A request for the background cancels nothing and is dropped by reset()."""
    token = CancelToken()
    assert not token.background_requested
    token.request_background()
    assert token.background_requested
    assert not token.cancelled
    token.reset()
    assert not token.background_requested


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_token_cannot_be_copied(make):
    """A copy would look like the token and be cancelled by nobody: refused."""
    with pytest.raises(TypeError, match="belongs to its process"):
        make(CancelToken())


def test_reason_is_text_that_knows_more():
    """A reason is a str with origin and time, and survives pickling."""
    token = CancelToken()
    token.cancel("why", "remote")
    again = pickle.loads(pickle.dumps(token.reason))
    assert again == "why"
    assert (again.origin, again.at) == ("remote", token.reason.at)
    assert isinstance(again, CancelReason)


def test_even_an_empty_reason_is_true():
    """``if token.reason`` asks whether there was a cancel, not what was said."""
    token = CancelToken()
    assert not token.reason
    token.cancel()
    assert token.reason
    assert token.reason == ""


def test_cancelled_survives_pickling():
    """The signal can cross a process, with its data."""
    again = pickle.loads(pickle.dumps(Cancelled("why", "remote")))
    assert (again.reason, again.origin) == ("why", "remote")


@pytest.mark.parametrize(
    ("arguments", "error", "names"),
    [
        ({"timeout": -1}, ValueError, "-1"),
        ({"timeout": -0.001}, ValueError, "-0.001"),
        ({"timeout": float("nan")}, ValueError, "nan"),
        ({"deadline": float("nan")}, ValueError, "nan"),
        ({"timeout": "5"}, TypeError, "'5'"),
        ({"timeout": True}, TypeError, "True"),
        ({"deadline": b"5"}, TypeError, "b'5'"),
        ({"timeout": 1, "deadline": 1}, ValueError, "not both"),
        ({"deadline": 4e9}, ValueError, "monotonic"),
    ],
)
def test_bad_times_are_refused(arguments, error, names):
    """A time that cannot work is refused by every method, naming the value."""
    for make in (CancelToken, CancelToken().child):
        with pytest.raises(error, match=names):
            make(**arguments)


def test_bad_waits_are_refused():
    """wait() and sleep() check their argument even on a cancelled token."""
    token = CancelToken()
    token.cancel()
    for method in (token.wait, token.sleep):
        with pytest.raises(ValueError, match="-2"):
            method(-2)
        with pytest.raises(TypeError, match="'soon'"):
            method("soon")


@pytest.mark.parametrize(
    ("arguments", "error", "names"),
    [
        ((7,), TypeError, "7"),
        ((b"why",), TypeError, "b'why'"),
        (("why", 7), TypeError, "7"),
        (("why", "me"), ValueError, "'me'"),
    ],
)
def test_bad_cancels_are_refused_and_do_nothing(arguments, error, names):
    """A wrong reason or origin is the caller's mistake: named, and nothing happens."""
    token = CancelToken()
    with pytest.raises(error, match=names):
        token.cancel(*arguments)
    assert not token.cancelled


@pytest.mark.parametrize(
    "seconds", [1, 1.5, Decimal("1.5"), float("inf"), 1e300, 10**400]
)
def test_all_kinds_of_numbers_are_times(seconds):
    """Whatever Python takes for a number of seconds, we take."""
    assert not CancelToken(timeout=seconds).cancelled


def test_repr_tells_the_state():
    """Somebody with a debugger sees at once what the token is."""
    token = CancelToken()
    assert repr(token) == "<CancelToken: live>"
    assert "s left" in repr(token.child(timeout=5))
    token.cancel("why", "remote")
    assert "cancelled" in repr(token)
    assert "'why'" in repr(token)
    assert "remote" in repr(token)
