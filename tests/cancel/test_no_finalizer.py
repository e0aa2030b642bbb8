"""S7: no run is ended by code in a finalizer, where a Ctrl+C would be lost."""

import gc
import weakref

from syncagent import Agent
from syncagent.cancel import RunClaim, RunSlot, live_runs
from syncagent.testing import ScriptedModel


def test_a_claim_has_no_finalizer():
    """What a signal handler raises there is printed, and ignored."""
    assert not hasattr(RunClaim, "__del__")
    assert not hasattr(RunSlot, "__del__")


def test_a_run_that_is_garbage_leaves_nothing():
    """It is seen by those who look, in place of being told."""
    agent = Agent(ScriptedModel(["ok", "ok"]))
    stream = agent.stream("Do it.")
    receipt = agent.cancel()
    claim = weakref.ref(stream.claim)
    stream.cycle = stream
    del stream
    assert receipt.wait(0.001) is False
    gc.collect()
    assert claim() is None
    assert live_runs() == []
    assert not agent.is_running
    assert receipt.wait(0) is True
    assert receipt.latency is not None
    assert agent.run("Again.").text == "ok"


def test_who_waits_for_a_run_that_is_dropped():
    """A wait for its end notices that nothing drives it any more."""
    agent = Agent(ScriptedModel(["ok", "ok"]))
    stream = agent.stream("Do it.")
    receipt = agent.cancel()
    stream.claim.drive_on(0)  # another thread, which would be allowed to wait
    del stream
    assert receipt.wait(20) is True
