"""What every test has: nothing left behind, and a clean environment."""

import signal

import pytest

from syncagent._context import NO_RUN, run_id
from syncagent.testing import no_leaks


def pytest_configure():
    """Hear Ctrl+C, also where a shell starts the tests in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def nothing_left():
    """Fail a test that leaves a thread of the SDK or a descriptor behind."""
    with no_leaks():
        yield
    # A signal handler that raises at the very end of a run may leave its id here.
    run_id.set(NO_RUN)
