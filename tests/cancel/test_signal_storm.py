"""Promise 1: cancel() in a signal handler."""

import pytest
from support.processes import run_script

pytestmark = pytest.mark.slow


def test_five_thousand_signals_and_no_deadlock():
    """Handlers that interrupt the token anywhere never wait for it."""
    storm = run_script("cancel/signal_storm", "token", 5_000, timeout=50)
    assert storm.stdout == "5000\n", storm.stderr


def test_a_plain_event_does_deadlock():
    """The same storm stops a plain Event for ever: the test above can fail."""
    storm = run_script("cancel/signal_storm", "event", 20_000, timeout=50)
    assert storm.stdout == "deadlock\n", storm.stderr


def test_a_handler_that_raises_leaves_nobody_asleep():
    """Real signals that raise inside cancel(): all is hit first, then they go up."""
    storm = run_script("cancel/raising_storm", 300, timeout=50)
    interrupted, asleep = map(int, storm.stdout.split())
    assert interrupted > 15, storm.stderr
    assert asleep == 0


@pytest.mark.stress
def test_a_million_signals_and_no_deadlock():
    """The same, for as long as a coffee takes."""
    storm = run_script("cancel/signal_storm", "token", 1_000_000, timeout=500)
    assert storm.stdout == "1000000\n", storm.stderr


@pytest.mark.stress
def test_a_handler_that_raises_leaves_nobody_asleep_for_long():
    """The same as above, a hundred times as often."""
    storm = run_script("cancel/raising_storm", 30_000, timeout=500)
    interrupted, asleep = map(int, storm.stdout.split())
    assert interrupted > 1500, storm.stderr
    assert asleep == 0
